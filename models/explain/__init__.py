"""Why a model answers as it does: words by integrated gradients, attention by layer and head."""

"""The original Transformer, encoder and decoder."""

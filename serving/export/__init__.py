"""A trained model as a SavedModel, with all that it brings along."""

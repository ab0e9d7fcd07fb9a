"""The Trainer: transformed examples become a SavedModel that takes raw text."""

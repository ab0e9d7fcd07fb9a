"""Raw examples become tokens and labels."""

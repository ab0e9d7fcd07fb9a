"""What a served model answers, in the user's terms."""

"""What changes an encoder that is there."""

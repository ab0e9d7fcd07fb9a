"""What stands on an encoder's vectors."""

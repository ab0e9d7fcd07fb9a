"""The REST API of the embedded server."""

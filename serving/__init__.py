"""Models as others get them: exported, served, and asked by a client."""

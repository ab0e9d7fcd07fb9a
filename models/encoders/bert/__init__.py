"""BERT's encoder, and its relatives by configuration."""

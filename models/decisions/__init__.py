"""How probabilities become an answer, and what is tuned for that."""

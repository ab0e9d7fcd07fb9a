"""The Evaluator: metrics on every slice, a verdict, and every evaluation example with its answer."""

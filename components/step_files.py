"""Names of what steps leave in their artifacts, for those who read it without the step's own, heavy module."""

HISTORY = "history.jsonl"
"""Of the Trainer: its records, one a line."""
SERVE_CHECK = "serve_check.json"
"""Of ServeCheck: its report."""
SERVING_MODEL = "Format-Serving"
"""Of the Trainer: the folder of the SavedModel in its artifact, as TFX names it."""
RECIPE = "recipe.json"

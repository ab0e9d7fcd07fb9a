"""Tasks, encoders, and how they are trained, judged and explained."""

"""Examples to batches, and what is drawn or weighed among them."""

"""The heads of a pushed model: what each is worth, and the model without some of them."""

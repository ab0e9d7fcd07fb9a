"""The schema that the config asks for, and the gate that holds the data against it."""

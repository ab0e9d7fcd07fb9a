"""What is learned: a module each, which calls its `Task` TASK."""

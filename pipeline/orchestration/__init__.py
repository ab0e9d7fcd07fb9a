"""Which step feeds which, what each depends on, and what runs them: here, or compiled for an engine."""

"""Our sections of the system prompt, one a file."""

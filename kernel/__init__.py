"""The agent loop and the kernel tools; imports nothing of `hermes.plugins`."""

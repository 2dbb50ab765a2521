"""The hooks."""

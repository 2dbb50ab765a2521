"""A tool for hermes. What may be imported from `hermes` is the public API; nothing else of it is."""

from hermes import hookimpl, tool


@tool(reads=(), idempotent=True)
def count_words(text: str) -> str:
    """Count the words of a text.

    Args:
        text: The text whose words are counted.
    """
    return f"{len(text.split())} words"


@hookimpl
def register_tools():
    return [count_words]

"""What the steps of a schema's conversion raise."""


class Unsendable(Exception):
    """No form of this schema is acceptable; the message says why."""

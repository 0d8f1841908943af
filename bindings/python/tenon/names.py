"""Hints for names that a user has misspelt. Tested by tests/torch/test_backend.py."""

import difflib


def similar(name, known):
    """The end of a message about an unknown name: the most similar known one."""
    near = difflib.get_close_matches(str(name), list(known), 1, 0.4)
    return f"; did you mean {near[0]!r}?" if near else ""


def nearest(name, known):
    """The same, with all known names behind it."""
    return similar(name, known) + f" (known: {', '.join(known)})"

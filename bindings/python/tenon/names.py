"""Hints for names that a user has misspelt. Tested by tests/torch/test_backend.py."""

import difflib


def nearest(name, known):
    """The end of a message about an unknown name: the most similar known one, and all known ones."""
    near = difflib.get_close_matches(str(name), list(known), 1, 0.4)
    return (f"; did you mean {near[0]!r}?" if near else "") + f" (known: {', '.join(known)})"

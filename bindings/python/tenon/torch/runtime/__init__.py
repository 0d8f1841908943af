"""The code that runs in a call of a compiled function."""

"""What runs in a call of a compiled function."""

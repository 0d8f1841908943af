"""Operators that PyTorch decomposes while it traces, kept whole for Tenon: one row computes what would become many nodes."""

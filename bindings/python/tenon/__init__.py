"""Tenon: a JIT graph executor for deep-learning frameworks, over its C ABI."""

"""Lowers one node of an ATen graph to lines of graph text."""

"""From one node of an ATen graph to its lines of graph text."""

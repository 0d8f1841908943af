"""Adds nodes to the graphs of AOTAutograd. Tested by tests/torch/test_complex.py and test_recompute.py."""

import torch


class Maker:
    """Adds nodes with their FakeTensors to a graph."""

    def __init__(self, graph, fake_mode):
        self.graph, self.fake_mode = graph, fake_mode

    def __call__(self, target, *args, **keywords):
        """The new node. If the operator refuses its arguments, the error is raised and the graph stays as it is."""
        read = lambda n: n.meta["val"]
        values, named = torch.utils._pytree.tree_map_only(torch.fx.Node, read, (args, keywords))
        with self.fake_mode:
            value = target(*values, **named)
        node = self.graph.call_function(target, args, keywords)
        node.meta["val"] = value
        return node

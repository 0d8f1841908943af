"""options={"rng": "fast"}: Tenon's kernels draw the random numbers of a graph. Each node that draws has its own seed.

A node is added at the start of the graph. It runs in PyTorch and takes all seeds from PyTorch's generator of the device. So
torch.manual_seed makes runs reproducible, two calls differ, and a capture of a CUDA graph sees a generator that it knows.
The drawing nodes themselves do not change: if Tenon cannot take one, PyTorch runs it and its seed is unused.
Tested by tests/torch/test_random.py.
"""

from typing import NamedTuple

import torch

from .lowering.node import value_of
from .lowering.tensors import CPU
from .ops.random import DRAWING

aten = torch.ops.aten


class Seeds(NamedTuple):
    node: torch.fx.Node  # draws an i64 for each drawing node
    place: dict          # drawing node -> index of its seed

    def of(self, n, device):
        """(Value of all seeds, index of the seed of node n), or None if n does not draw."""
        return (value_of(self.node, device), self.place[n]) if n in self.place else None


def plant(gm):
    """Adds the node that draws the seeds. Returns the Seeds, or None if no node of the graph draws random numbers."""
    drawing = [n for n in gm.graph.nodes if n.op == "call_function" and draws(n)]
    if not drawing:
        return None
    fakes = [f for f in torch.utils._pytree.tree_leaves([n.meta["val"] for n in drawing]) if isinstance(f, torch.Tensor)]
    fake = next((f for f in fakes if f.device != CPU), fakes[0])
    with gm.graph.inserting_before(next(n for n in gm.graph.nodes if n.op != "placeholder")):
        node = gm.graph.call_function(aten.randint.low, (-2**63, 2**63 - 1, [len(drawing)]),
                                      {"dtype": torch.int64, "device": fake.device})
    with fake.fake_mode:
        node.meta["val"] = torch.empty(len(drawing), dtype=torch.int64, device=fake.device)
    return Seeds(node, {n: i for i, n in enumerate(drawing)})


def draws(n):
    """Whether a node draws random numbers that a row could draw."""
    if n.target is aten.native_dropout.default:
        arguments = {**dict(zip(("input", "p", "train"), n.args)), **n.kwargs}
        p = arguments["p"]
        return arguments.get("train") is not False and isinstance(p, float) and 0 < p < 1
    return str(n.target) in DRAWING

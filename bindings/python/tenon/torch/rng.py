"""Random numbers of a graph.

rng="torch": PyTorch draws. plant_masks() moves the masks of dropouts to the start of the graph, in the order of eager mode, so their
bits are those of eager mode and a dropout cuts no segment. Other nodes that draw run in PyTorch where they stand.

rng="fast": Tenon's kernels draw. Each node that draws has its own seed. plant_seeds() adds a node at the start of the graph that
runs in PyTorch and takes all seeds from PyTorch's generator of the device. So torch.manual_seed makes runs reproducible, two
calls differ, and a capture of a CUDA graph sees a generator that it knows. The drawing nodes themselves do not change: if Tenon
cannot take one, PyTorch runs it and its seed is unused.
Tested by tests/torch/test_random.py and test_training.py.
"""

from typing import NamedTuple

import torch

from .lowering.node import value_of
from .lowering.tensors import CPU
from .ops.random import DRAWING
from .runtime.runner import draw_mask

aten = torch.ops.aten


class Seeds(NamedTuple):
    node: torch.fx.Node  # draws an i64 for each drawing node
    place: dict          # drawing node -> index of its seed

    def of(self, n, device):
        """(Value of all seeds, index of the seed of node n), or None if n does not draw."""
        return (value_of(self.node, device), self.place[n]) if n in self.place else None


def plant(gm, rng):
    """Prepares an inference graph, a forward graph or a joint graph for the option rng. Returns the Seeds or None."""
    return plant_seeds(gm) if rng == "fast" else plant_masks(gm)


def plant_seeds(gm):
    """Adds the node that draws the seeds. Returns the Seeds, or None if no node of the graph draws random numbers."""
    drawing = [n for n in gm.graph.nodes if n.op == "call_function" and draws(n)]
    if not drawing:
        return None
    fakes = [f for f in torch.utils._pytree.tree_leaves([n.meta["val"] for n in drawing]) if isinstance(f, torch.Tensor)]
    fake = next((f for f in fakes if f.device != CPU), fakes[0])
    with gm.graph.inserting_before(_first(gm)):
        node = gm.graph.call_function(aten.randint.low, (-2**63, 2**63 - 1, [len(drawing)]),
                                      {"dtype": torch.int64, "device": fake.device})
    with fake.fake_mode:
        node.meta["val"] = torch.empty(len(drawing), dtype=torch.int64, device=fake.device)
    return Seeds(node, {n: i for i, n in enumerate(drawing)})


def plant_masks(gm):
    """Replaces dropouts by products with their masks, which nodes at the start of the graph draw. Stops at the first node that draws
    something else, because the order of all draws has to stay that of eager mode."""
    before, number = _first(gm), 0
    for n in list(gm.graph.nodes):
        if n.op != "call_function" or not _is_random(n):
            continue
        if not is_dropout(n) or n.meta["val"][0].device != CPU:
            break
        number += 1
        x, p = n.args[:2]
        kept = n.meta["val"][1]
        with gm.graph.inserting_before(before):
            shape, strides = (tuple(gm.graph.materialize_symints(list(s))) for s in (kept.shape, kept.stride()))
            mask = gm.graph.call_function(draw_mask, (shape, strides, 1 - p, number))
        mask.meta = {"val": kept}  # without the tags of checkpointing: a mask is saved, never drawn again
        with gm.graph.inserting_before(n):
            masked = gm.graph.call_function(aten.native_dropout_backward.default, (x, mask, 1 / (1 - p)))
        masked.meta = dict(n.meta, val=n.meta["val"][0])
        for result in list(n.users):
            result.replace_all_uses_with((masked, mask)[result.args[1]])
            gm.graph.erase_node(result)
        gm.graph.erase_node(n)


def _first(gm):
    return next(n for n in gm.graph.nodes if n.op != "placeholder")


def _is_random(n):
    if not isinstance(n.target, torch._ops.OpOverload):
        return isinstance(n.target, torch._ops.HigherOrderOperator)
    return torch.Tag.nondeterministic_seeded in n.target.tags


def draws_numbers(n):
    """Whether a node of a joint graph draws random numbers, or may."""
    return n.target is draw_mask or isinstance(n.target, torch._ops.OpOverload) and _is_random(n)


def is_dropout(n):
    """Whether a node draws the mask of a dropout."""
    if n.target is not aten.native_dropout.default or len(n.args) < 2:
        return False
    train = n.args[2] if len(n.args) > 2 else n.kwargs.get("train")
    return train is not False and isinstance(n.args[1], float) and 0 < n.args[1] < 1


def draws(n):
    """Whether a node draws random numbers that a row could draw."""
    return is_dropout(n) if n.target is aten.native_dropout.default else str(n.target) in DRAWING

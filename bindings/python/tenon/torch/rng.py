"""Random numbers of a graph.

rng="torch": PyTorch draws, or twister.py as PyTorch does. plant_draws() moves the masks of dropouts, and other draws that read no data, to
the start of the graph, in the order of eager mode, so their numbers are those of eager mode and they cut no segment. Other nodes that
draw run in PyTorch where they stand. In a joint graph the masks of dropouts are drawn as bits, eight to a byte, which the forward graph
saves; both graphs unpack them where they read them.

rng="fast": Tenon's kernels draw. Each node that draws has its own seed. plant_seeds() adds a node at the start of the graph that
runs in PyTorch and takes all seeds from PyTorch's generator of the device. So torch.manual_seed makes runs reproducible, two
calls differ, and a capture of a CUDA graph sees a generator that it knows. The drawing nodes themselves do not change: if Tenon
cannot take one, PyTorch runs it and its seed is unused. In a joint graph, plant_seeded_masks() replaces dropouts by products with
masks that are functions of the seeds, so the backward graph computes the masks again and the forward graph saves only the seeds.
Tested by tests/torch/test_random.py and test_training.py.
"""

import math
from typing import NamedTuple

import torch
from torch._functorch.partitioners import must_recompute
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, optimization_hint
from torch.utils.checkpoint import CheckpointPolicy

from .lowering.operand import of_host
from .lowering.tensors import CPU
from .ops.random import DRAWING
from .runtime.runner import DRAWING_FUNCTIONS, draw, draw_bits, draw_mask, draw_seeds
from .size_nodes import size_nodes

aten = torch.ops.aten
TAGS = ("recompute", "ac_graph_id", "custom")  # of checkpoints and budgets
_library = torch.library.Library("tenon", "FRAGMENT")
_library.define("dropout_mask(Tensor seeds, int index, SymInt[] size, SymInt[] stride, float p) -> Tensor")
_library.define("mask_of_bits(Tensor bits, SymInt[] size, SymInt[] stride) -> Tensor")


class Seeds(NamedTuple):
    node: torch.fx.Node  # draws an i64 for each drawing node
    place: dict          # drawing node -> index of its seed

    def of(self, n, device):
        """(Value of all seeds, index of the seed of node n), or None if n does not draw."""
        return (of_host(self.node, device), self.place[n]) if n in self.place else None


def plant(gm, rng):
    """Prepares an inference graph, a forward graph or a joint graph for the option rng. Returns the Seeds or None."""
    return plant_seeds(gm) if rng == "fast" else plant_draws(gm)


# Operators with an argument for a generator -> those that always take PyTorch's own.
_OWN_GENERATOR = {getattr(aten, name).generator: getattr(aten, name).default for name in ("rand", "randn", "randint")}
_OWN_GENERATOR |= {aten.randint.low_generator: aten.randint.low}


def _leave_out_generators(gm):
    """Replaces operators that get no generator by those without this argument."""
    for n in gm.graph.nodes:
        if n.target in _OWN_GENERATOR and n.kwargs.get("generator") is None:
            n.target, n.kwargs = _OWN_GENERATOR[n.target], {name: value for name, value in n.kwargs.items() if name != "generator"}


def plant_seeds(gm):
    """Adds the node that draws the seeds. Returns the Seeds, or None if no node of the graph draws random numbers."""
    _leave_out_generators(gm)
    drawing = [n for n in gm.graph.nodes if n.op == "call_function" and draws(n)]
    if not drawing:
        return None
    fakes = [f for f in torch.utils._pytree.tree_leaves([n.meta["val"] for n in drawing]) if isinstance(f, torch.Tensor)]
    node = _add_seeds(gm, len(drawing), next((f for f in fakes if f.device != CPU), fakes[0]))
    return Seeds(node, {n: i for i, n in enumerate(drawing)})


def _add_seeds(gm, count, like):
    """Adds a node at the start of the graph that draws `count` seeds on the device of the FakeTensor `like`."""
    with gm.graph.inserting_before(_first(gm)):
        node = gm.graph.call_function(draw_seeds, (count, str(like.device)))
    with like.fake_mode:
        node.meta["val"] = torch.empty(count, dtype=torch.int64, device=like.device)
    return node


def plant_seeded_masks(gm, again):
    """Replaces the dropouts of a joint graph on a CPU by products with masks that are functions of seeds. again: whether the backward
    graph is to compute the masks again where no checkpoint decides."""
    dropouts = [n for n in gm.graph.nodes if n.op == "call_function" and is_dropout(n) and _can_be_product(n)]
    dropouts = [(n, layout) for n in dropouts if (layout := _layout(gm, n, n)) is not None]
    if not dropouts:
        return
    first = dropouts[0][0]
    seeds = _add_seeds(gm, len(dropouts), first.meta["val"][0])
    seeds.meta |= {name: first.meta[name] for name in ("custom",) if name in first.meta}
    for index, (n, layout) in enumerate(dropouts):
        mask = _replace(gm, n, n, torch.ops.tenon.dropout_mask.default, lambda p: (seeds, index, *layout, p))
        mask.meta |= {name: n.meta[name] for name in TAGS if name in n.meta}
        if again:
            compute_again(mask)


def compute_again(node):
    """Makes PyTorch's partitioners put a copy of the node into the backward graph, unless a checkpoint decides about it. The mark "tenon_again"
    tells our tag from that of a checkpoint."""
    if "recompute" not in node.meta:
        node.meta |= {"recompute": CheckpointPolicy.PREFER_RECOMPUTE, "tenon_again": True}
    node.meta.setdefault("ac_graph_id", 0)


@torch.library.impl(_library, "dropout_mask", "CompositeExplicitAutograd")
def _dropout_mask(seeds, index, size, stride, p):
    """The mask as Tenon's kernels compute it: random_uniform(seed) < p, see docs/ops.md."""
    low, seed, place = 0xFFFFFFFF, int(seeds[index]), torch.arange(math.prod(size))
    x, y, key = place >> 1 & low, ((place >> 1) ^ seed) >> 32 & low, seed & low
    for _ in range(10):
        product = x * 0xD256D193
        x, y, key = (product >> 32 & low) ^ key ^ y, product & low, key + 0x9E3779B9 & low
    uniform = (torch.where(place % 2 == 1, y, x) >> 8).to(torch.float32) / 2**24
    return torch.empty_strided(size, stride, dtype=torch.bool).copy_((uniform < torch.tensor(p, dtype=torch.float32)).view(size))


@torch.library.register_fake("tenon::dropout_mask", lib=_library)
def _(seeds, index, size, stride, p):
    return seeds.new_empty_strided(size, stride, dtype=torch.bool)


@torch.library.impl(_library, "mask_of_bits", "CompositeExplicitAutograd")
def _mask_of_bits(bits, size, stride):
    flat = (bits.unsqueeze(1) >> torch.arange(8, device=bits.device)).bitwise_and_(1).view(-1)[:math.prod(size)]
    return bits.new_empty_strided(size, stride, dtype=torch.bool).copy_(flat.view(size))


@torch.library.register_fake("tenon::mask_of_bits", lib=_library)
def _(bits, size, stride):
    return bits.new_empty_strided(size, stride, dtype=torch.bool)


def plant_draws(gm, saved=False):
    """Replaces dropouts by products with their masks, which nodes at the start of the graph draw. If `saved`, these nodes draw bits.
    Draws that read no data move there too. Stops at the first node that does neither, because the order of all draws has to stay that of
    eager mode."""
    _leave_out_generators(gm)
    before, number, operands = _first(gm), 0, []
    for n in list(gm.graph.nodes):
        if n.op != "call_function" or not _is_random(n):
            continue
        number += 1
        product = is_dropout(n) and _can_be_product(n)
        call = None if product else _without_data(n)
        layout = _layout(gm, n, before) if product or call else None
        if layout is None:
            break
        if product:
            drawn = _replace(gm, n, before, draw_mask, lambda p: (*layout, p, number))
        else:
            operands += [a for a in n.args if isinstance(a, torch.fx.Node)]
            drawn = _move(gm, n, before, number, layout, *call)
        if before is n:  # which is erased
            before = drawn.next
        drawn.meta |= {name: n.meta[name] for name in ("custom",) if name in n.meta}
        if saved and product:
            _pack(gm, drawn)
            drawn.meta |= {name: n.meta[name] for name in ("ac_graph_id",) if name in n.meta}
            compute_again(drawn)
    for n in dict.fromkeys(operands):
        if n.op == "call_function" and not n.users and not draws_numbers(n):
            gm.graph.erase_node(n)


# Operators whose numbers depend on no data -> (an operator that draws these numbers for a tensor of the result's type, which arguments it
# takes besides the tensor).
_BLIND = {
    aten.rand.default: (aten.rand_like.default, slice(0, 0)),
    aten.randn.default: (aten.randn_like.default, slice(0, 0)),
    aten.randint.default: (aten.randint_like.default, slice(0, 1)),
    aten.randint.low: (aten.randint_like.low_dtype, slice(0, 2)),
    aten.normal.float_float: (aten.normal_functional.default, slice(0, 2)),
} | {op: (op, slice(1, None)) for op in (
    aten.rand_like.default, aten.randn_like.default, aten.randint_like.default, aten.randint_like.low_dtype, aten.bernoulli.p,
    aten.uniform.default, aten.normal_functional.default, aten.exponential.default)}
_OF_TYPE = {"dtype", "layout", "device", "pin_memory", "memory_format"}  # keywords that say what the result's type says too
_MOST_SAVED = 1 << 16  # elements, at the traced sizes, that are saved for a checkpointed region instead of drawing them again


def _without_data(n):
    """If the numbers that a node draws depend on no tensor's elements: (an operator that draws them for a tensor of the result's type,
    its other operands). Else None."""
    fake = n.meta.get("val")
    if n.target not in _BLIND or fake.device != CPU or free_unbacked_symbols(fake) or not _OF_TYPE.issuperset(n.kwargs):
        return None
    op, others = _BLIND[n.target]
    if not all(isinstance(a, (bool, int, float)) for a in n.args[others]):
        return None
    if _loses_draws(n):
        return None
    if must_recompute(n) and optimization_hint(fake.numel()) > _MOST_SAVED:
        return None
    return op, n.args[others]


def _loses_draws(n):
    """Whether a node draws numbers that only n and other draws of _BLIND read, directly or through other nodes. Without these readers
    PyTorch leaves out that node, and all later numbers would be others."""
    unread, nodes = {n}, [n]
    while nodes:
        for i in nodes.pop().all_input_nodes:
            if i.op == "call_function" and i not in unread and all(u in unread or u.target in _BLIND for u in i.users):
                if draws_numbers(i):
                    return True
                unread.add(i)
                nodes.append(i)
    return False


def _layout(gm, n, before):
    """Returns (size, stride) of the numbers that a node draws. Nodes that compute them stand before the node `before`. Returns None if no nodes
    can compute them."""
    fake = n.meta["val"][1] if is_dropout(n) else n.meta["val"]
    with gm.graph.inserting_before(before):
        found = size_nodes(gm.graph, (*fake.shape, *fake.stride()))
    return None if found is None else (tuple(found[:fake.dim()]), tuple(found[fake.dim():]))


def _move(gm, n, before, number, layout, op, others):
    """Replaces a node by one that draws the same numbers and stands before the node `before`. Returns that node."""
    fake = n.meta["val"]
    with gm.graph.inserting_before(before):
        drawn = gm.graph.call_function(draw, (op, *layout, fake.dtype, number, *others))
    drawn.meta = {"val": fake}
    n.replace_all_uses_with(drawn)
    gm.graph.erase_node(n)
    return drawn


def _can_be_product(n):
    """Whether _replace can take a dropout: it needs the sizes of the mask before the mask is drawn."""
    return n.meta["val"][0].device == CPU and not free_unbacked_symbols(n.meta["val"])


def _pack(gm, mask):
    """Replaces a node that draws a mask by one that draws bits and one that unpacks them."""
    size, stride, p, number = mask.args
    fake = mask.meta["val"]
    with gm.graph.inserting_before(mask):
        bits = gm.graph.call_function(draw_bits, (size, stride, p, number))
    with fake.fake_mode:
        bits.meta = dict(mask.meta, val=torch.empty((fake.numel() + 7) // 8, dtype=torch.uint8))
    mask.target, mask.args = torch.ops.tenon.mask_of_bits.default, (bits, size, stride)


def _replace(gm, n, before, target, arguments):
    """Replaces a dropout by a product with a mask. `target` computes the mask; its node stands before the node `before` and has no
    tags of checkpoints. arguments(probability of keeping an element): those of `target`. Returns the mask."""
    x, p = n.args[:2]
    kept = n.meta["val"][1]
    with gm.graph.inserting_before(before):
        mask = gm.graph.call_function(target, arguments(1 - p))
    mask.meta = {"val": kept}
    with gm.graph.inserting_before(n):
        masked = gm.graph.call_function(aten.native_dropout_backward.default, (x, mask, 1 / (1 - p)))
    masked.meta = dict(n.meta, val=n.meta["val"][0])
    for result in list(n.users):
        result.replace_all_uses_with((masked, mask)[result.args[1]])
        gm.graph.erase_node(result)
    gm.graph.erase_node(n)
    return mask


def _first(gm):
    return next(n for n in gm.graph.nodes if n.op != "placeholder")


def _is_random(n):
    if not isinstance(n.target, torch._ops.OpOverload):
        return isinstance(n.target, torch._ops.HigherOrderOperator)
    return torch.Tag.nondeterministic_seeded in n.target.tags


def draws_numbers(n):
    """Whether a node of a joint graph draws random numbers, or may."""
    return n.target in DRAWING_FUNCTIONS or isinstance(n.target, torch._ops.OpOverload) and _is_random(n)


def is_dropout(n):
    """Whether a node draws the mask of a dropout."""
    if n.target is not aten.native_dropout.default or len(n.args) < 2:
        return False
    train = n.args[2] if len(n.args) > 2 else n.kwargs.get("train")
    return train is not False and isinstance(n.args[1], float) and 0 < n.args[1] < 1


def draws(n):
    """Whether a node draws random numbers that a row could draw."""
    return is_dropout(n) if n.target is aten.native_dropout.default else str(n.target) in DRAWING

"""The layout of the images that a forward graph saves for its backward graph.

The library computes convolutions in channels_last. Where PyTorch would save an image in channels_first, the forward graph would transpose
it, and the backward graph would read it across. So both graphs get the strides of channels_last for it. Only
Tenon's functions see these tensors: results of the model keep PyTorch's strides.
Tested by tests/torch/test_training.py.
"""

import operator

import torch

from .lowering import layouts, sizes

aten = torch.ops.aten


def lay_out(forward, backward, num_fwd_outputs):
    """Gives the saved images of the two graphs the strides of channels_last."""
    results = forward.graph.output_node().args[0]
    returned, images = set(results[:num_fwd_outputs]), of_convolutions(forward)
    readers = {n.name: n for n in backward.graph.nodes if n.op == "placeholder"}
    for n in dict.fromkeys(results[num_fwd_outputs:]):
        if n not in images or n.name not in readers or not returned.isdisjoint(aliases_of(n)):
            continue
        if _has_views(n) or _has_views(readers[n.name]):
            continue
        for same in (*aliases_of(n), *aliases_of(readers[n.name])):
            same.meta["val"] = _channels_last(same.meta["val"])
            same.meta["laid_out"] = True


def strides_may_differ(n):
    """Whether PyTorch may compute node n with other strides than its fake tensor has: it is such an image, or reads one."""
    source = n.args[0] if n.target is operator.getitem else n
    return "laid_out" in n.meta or any("laid_out" in x.meta for x in source.all_input_nodes)


def of_convolutions(graph):
    """The nodes that are results of convolutions, or follow from these, and that PyTorch lays out channels_first."""
    images, dense = set(), set()
    for n in graph.graph.nodes:
        if n.op != "call_function" or not _follows(n, images):
            continue
        images.add(n)
        fake = n.meta.get("val")
        if isinstance(fake, torch.Tensor) and fake.dim() in (4, 5) and layouts.is_dense(*map(sizes.sizes, (fake.shape, fake.stride()))):
            dense.add(n)
    return dense


def _follows(n, images):
    """Whether a node is a convolution, or reads an image, is no view and has as many axes as the image."""
    if n.target is aten.convolution.default:
        return True
    if n.target is operator.getitem:
        return n.args[0] in images and n.args[1] == 0
    return not is_view(n) and any(x in images and _rank(x) == _rank(n) for x in n.all_input_nodes)


def _rank(n):
    val = n.meta.get("val")  # a random number that PyTorch draws again has none
    first = val[0] if isinstance(val, (tuple, list)) and val else val
    return first.dim() if isinstance(first, torch.Tensor) else -1


def is_view(n):
    return isinstance(n.target, torch._ops.OpOverload) and any(r.alias_info is not None for r in n.target._schema.returns)


def aliases_of(n):
    """Yields node n and the nodes that are the same tensor."""
    yield n
    for u in n.users:
        if u.target in (aten.detach.default, aten.alias.default):
            yield from aliases_of(u)


def _has_views(n):
    """Whether a node looks at the memory of node n with other sizes or strides."""
    aliases = set(aliases_of(n))
    return any(is_view(u) and u not in aliases for same in aliases for u in same.users)


def _channels_last(fake):
    channels, *space = fake.shape[1:]
    strides, step = [], channels
    for size in reversed(space):
        strides.insert(0, step)
        step = step * size
    with fake.fake_mode:
        return torch.empty_strided(fake.shape, (step, 1, *strides), dtype=fake.dtype, device=fake.device)

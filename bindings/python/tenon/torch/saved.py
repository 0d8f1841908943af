"""Lists the values that the forward pass saves for the backward pass and those that the backward pass computes again, and counts the
bytes that eager mode would save. explain() shows the lists. Tested by tests/torch/test_recompute.py.
"""

import collections
import operator

import torch
from torch._functorch.partitioners import _size_of
from torch._guards import detect_fake_mode

from .lowering.tensors import DTYPES


class Saved:
    """values, again: {(op, dtype and shape, why): [bytes of each]} of the saved values, where why is "", and of those that are
    computed again. bytes: of all saved values, each memory once, without inputs; eager_bytes: what eager mode saves, None: not known."""

    def __init__(self, forward, backward, outputs, why):
        """forward, backward: the graphs; outputs: how many results the forward graph has for the user; why(node) -> reason for
        computing the node again."""
        self.values, self.again, self.bytes, self.eager_bytes = collections.defaultdict(list), collections.defaultdict(list), 0, None
        places = [n for n in forward.graph.nodes if n.op == "placeholder"]
        kept, known = forward.graph.output_node().args[0][outputs:], {_memory(n) for n in places}
        for n in kept:
            if _is_new(n, known):
                self.values[_text(n, "")].append(_size_of(n))
        self.bytes = sum(map(sum, self.values.values()))
        names = {n.name for n in forward.graph.nodes if n.op == "call_function"}
        known = {_memory(n) for n in backward.graph.nodes if n.op == "placeholder"}
        for n in backward.graph.nodes:
            if n.op == "call_function" and n.name in names and n.target is not torch.ops.tenon.mask_of_bits.default and _is_new(n, known):
                self.again[_text(n, why(n))].append(_size_of(n))

    def to_dict(self):
        def rows(found):
            return [{"op": op, "type": kind, "count": len(sizes), "bytes": sum(sizes)} | ({"why": why} if why else {})
                    for (op, kind, why), sizes in found.items()]

        return {"bytes": self.bytes, "eager_bytes": self.eager_bytes, "values": rows(self.values), "computed_again": rows(self.again)}

    def lines(self):
        data = self.to_dict()
        eager = "" if data["eager_bytes"] is None else f"; eager mode saves {data['eager_bytes']} bytes"
        yield f"saves {data['bytes']} bytes for the backward pass{eager}"
        for row in sorted(data["values"], key=lambda row: -row["bytes"]):
            yield f"  {row['bytes']} bytes in {row['count']} of {row['type']}: {row['op']}"
        for row in sorted(data["computed_again"], key=lambda row: -row["bytes"]):
            yield f"computes again {row['bytes']} bytes in {row['count']} of {row['type']}: {row['op']} ({row['why']})"


def _is_new(n, known):
    """Whether a node is a tensor in memory that is not in `known`, and adds the memory to it. A view needs no memory of its own."""
    memory = _memory(n)
    if memory is None or memory in known:
        return False
    known.add(memory)
    return True


def _memory(n):
    """Identifies the memory of a node's tensor; None if the node is no tensor."""
    fake = n.meta.get("val") if isinstance(n, torch.fx.Node) else None
    return fake.untyped_storage()._cdata if isinstance(fake, torch.Tensor) and fake.layout == torch.strided else None


def _text(n, why):
    fake, source = n.meta["val"], n.args[0] if n.target is operator.getitem else n
    name = getattr(source.target, "__name__", source.name) if source.op == "call_function" else "an input"
    return name, f"{DTYPES.get(fake.dtype, fake.dtype)}[{', '.join(map(str, fake.shape))}]", why


def eager_bytes(gm, inputs):
    """The bytes that eager mode saves for a backward pass through Dynamo's graph, each memory once, without inputs and parameters.
    Computes with tensors that have no data. None if they do not suffice."""
    try:
        mode = detect_fake_mode(inputs)
        inputs = [_without_data(mode, x) for x in inputs]
        own = {name: _without_data(mode, t) for name, t in (*gm.named_parameters(), *gm.named_buffers())}
        kept, known = {}, {t.untyped_storage()._cdata for t in (*inputs, *own.values()) if isinstance(t, torch.Tensor)}

        def pack(t):
            if (place := t.untyped_storage()._cdata) not in known:
                kept[place] = t  # keeps the storage alive, so that no other gets its address
            return t

        with mode, torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            result = torch.func.functional_call(gm, own, tuple(inputs))
        del result
        return sum(int(t.numel()) * t.element_size() for t in kept.values())
    except Exception:
        return None


def _without_data(mode, x):
    """Parameters and buffers are real tensors: computing with them would change the buffers."""
    real = isinstance(x, torch.Tensor) and not isinstance(x, torch._subclasses.FakeTensor)
    return mode.from_tensor(x, static_shapes=True) if real else x

"""Lists the values that the forward pass saves for the backward pass, those that eager mode would save, and those that the backward pass
computes again. explain() shows the lists. Tested by tests/torch/test_recompute.py.
"""

import collections
import operator

import torch
from torch._functorch.partitioners import _size_of
from torch._guards import detect_fake_mode
from torch.nn.utils.stateless import _reparametrize_module

from .lowering.tensors import DTYPES


class Saved:
    """values, eager, again: {(op, dtype and shape, why): [bytes of each]} of the saved values, where why is "", of those that eager mode
    saves (eager_values; None: not known), and of those that are computed again. bytes: of all saved values, each memory once,
    without inputs."""

    def __init__(self, forward, backward, outputs, why):
        """forward, backward: the graphs; outputs: how many results the forward graph has for the user; why(node) -> reason for
        computing the node again."""
        self.values, self.again, self.eager = collections.defaultdict(list), collections.defaultdict(list), None
        places = [n for n in forward.graph.nodes if n.op == "placeholder"]
        kept, known = forward.graph.output_node().args[0][outputs:], {_memory(n) for n in places}
        parts = set()
        for n in kept:
            if (part := _part(n)) and part[0] not in known and part not in parts:
                parts.add(part)
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
                    for (op, kind, why), sizes in sorted(found.items(), key=lambda row: -sum(row[1]))]

        known = self.eager is not None
        return {"bytes": self.bytes, "eager_bytes": sum(map(sum, self.eager.values())) if known else None, "values": rows(self.values),
                "eager_values": rows(self.eager) if known else None, "computed_again": rows(self.again)}

    def lines(self):
        data = self.to_dict()
        eager = "" if self.eager is None else f"; eager mode saves {data['eager_bytes']} bytes"
        yield f"saves {data['bytes']} bytes for the backward pass{eager}"
        yield from (f"  {_row(row)}" for row in data["values"])
        yield from (f"eager mode saves {_row(row)}" for row in data["eager_values"] or ())
        yield from (f"computes again {_row(row)} ({row['why']})" for row in data["computed_again"])


def _row(row):
    return f"{row['bytes']} bytes in {row['count']} of {row['type']}: {row['op']}"


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


def _part(n):
    """Identifies the elements of a node's tensor. Programs write the parts of one memory that are saved, such as the queries, keys and values
    of one product, as tensors of their own."""
    memory = _memory(n)
    return memory and (memory, str(n.meta["val"].storage_offset()), str(n.meta["val"].numel()))


def _text(n, why):
    source = n.args[0] if n.target is operator.getitem else n
    return _name(source), _type(n.meta["val"]), why


def _name(n):
    """The operator, function or method of a node."""
    if n.op == "call_method":
        return n.target
    return getattr(n.target, "__name__", n.name) if n.op == "call_function" else "an input"


def _type(t):
    return f"{DTYPES.get(t.dtype, t.dtype)}[{', '.join(map(str, t.shape))}]"


def eager_values(gm, inputs):
    """Finds the values that eager mode saves for a backward pass through Dynamo's graph: each memory once, without inputs and parameters.
    Returns a dict like Saved.values, whose ops are the functions of Dynamo's graph. A value that is no result of a function, such as
    the mask of a dropout, is "inside" the function that saves it. Computes with tensors that have no data, and returns None if they
    do not suffice."""
    try:
        mode = detect_fake_mode(inputs)
        inputs = [_without_data(mode, x) for x in inputs]
        own = {name: _without_data(mode, t) for name, t in (*gm.named_parameters(), *gm.named_buffers())}
        watch = _Watch(gm, {t.untyped_storage()._cdata for t in (*inputs, *own.values()) if isinstance(t, torch.Tensor)})
        with mode, torch.enable_grad(), _reparametrize_module(gm, own), torch.autograd.graph.saved_tensors_hooks(watch.pack, lambda t: t):
            watch.run(*inputs)
        return watch.values()
    except Exception:
        return None


class _Watch(torch.fx.Interpreter):
    """Runs a graph and notes which tensors are saved."""

    def __init__(self, gm, known):
        """known: the memories of the inputs."""
        super().__init__(gm)
        self.known, self.kept = known, {}  # kept: memory -> (tensor, node that saves it)
        self.made = {}  # memory -> (tensor, node whose result it is); a tensor keeps its memory's address from being used again

    def pack(self, t):
        if (place := t.untyped_storage()._cdata) not in self.known:
            self.kept.setdefault(place, (t, self.node))
        return t

    def run_node(self, n):
        self.node = n
        result = super().run_node(n)
        for t in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(t, torch.Tensor):
                self.made.setdefault(t.untyped_storage()._cdata, (t, n))
        return result

    def values(self):
        found = collections.defaultdict(list)
        for place, (t, n) in self.kept.items():
            name = _name(self.made[place][1]) if place in self.made else f"inside {_name(n)}"
            found[name, _type(t), ""].append(int(t.untyped_storage().nbytes()))  # a view keeps the whole memory
        return found


def _without_data(mode, x):
    """Parameters and buffers are real tensors: computing with them would change the buffers."""
    real = isinstance(x, torch.Tensor) and not isinstance(x, torch._subclasses.FakeTensor)
    return mode.from_tensor(x, static_shapes=True) if real else x

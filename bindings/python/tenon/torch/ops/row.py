"""The op table of the PyTorch backend: ATen overload -> how to write it in graph text. One row per overload.

A row is a function of an Emitter (lowering/emitter.py) and the node's arguments in ATen's order: tensors arrive as Values, sizes
as ints or sympy expressions. It returns a Value, or a tuple for ops with several results (None: not available). Dtype
and shape of the result are checked against PyTorch's afterwards, and the last cast is added by node.finish.
`view` marks ops whose result is a view in PyTorch. Raise Unsupported with a sentence to leave a node to PyTorch.
The other modules of this folder fill the table. A new op is one row there and one line in
tests/torch/test_lower.py.
"""

from typing import Callable, NamedTuple


class Row(NamedTuple):
    emit: Callable
    view: bool


TABLE = {}


def row(*names, view=False):
    def add(emit):
        for name in names:
            name = name if name.startswith(("prims.", "torch_nn.", "transformers.")) else "aten." + name
            TABLE[name if name.count(".") == 2 else name + ".default"] = Row(emit, view)
        return emit

    return add

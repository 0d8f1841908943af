"""Views that the host makes of the memory of results and inputs. Tested by tests/torch/test_views_of_updated_inputs.py and
test_aot_semantics.py.
"""

import dataclasses
import operator

import torch
from torch.utils._pytree import tree_leaves

from . import layouts, sizes
from .node import name_of


@dataclasses.dataclass(frozen=True)
class HostView:
    """A view of the memory of the tensor of fx node `base`. fake: has the sizes, strides and storage offset of the view. calls:
    (function, arguments behind the first, keywords) of each view from the base to this one. Without calls, as_strided makes the view."""

    base: torch.fx.Node
    fake: torch.Tensor
    calls: tuple = ()

    @property
    def offset(self):
        """The storage offset relative to that of the base."""
        return sizes.size(sizes.size(self.fake.storage_offset()) - sizes.size(self.base.meta["val"].storage_offset()))

    def symbols(self):
        arguments = [a for a in tree_leaves(self.calls) if isinstance(a, torch.SymInt)]
        return sizes.symbols_of(*map(sizes.size, (*self.fake.shape, *self.fake.stride(), self.offset, *arguments)))


def is_view(n, table):
    """Whether node n is a view of its first argument, by its row in the op table."""
    if n.op != "call_function":
        return False
    if n.target is operator.getitem:
        return is_view(n.args[0], table)
    row = table.get(name_of(n.target))
    return row is not None and row.view


def host_view(base, nodes):
    """The HostView of the last of the fx nodes. The first node is a view of `base`, and each other node is a view of the node before it.
    AOTAutograd makes a returned view of an input again, by the function of the result, and differentiates it. Where elements of the
    input overlap in memory, as_strided has other gradients than the nodes have, so the HostView calls their functions."""
    fake, calls = base.meta["val"], ()
    if base.op == "placeholder" and layouts.overlaps(sizes.sizes(fake.shape), sizes.sizes(fake.stride())):
        calls = tuple((n.target, *_arguments(n)) for n in nodes)
    return HostView(base, nodes[-1].meta["val"], calls)


def view_of_input(n, source, to):
    """The HostView of input `to` for n, a view of node `source`, whose values the graph writes to the input. None if PyTorch copies
    elements for it."""
    fake = _replayed(n, source, to.meta["val"])
    same_memory = fake.untyped_storage()._cdata == to.meta["val"].untyped_storage()._cdata
    return HostView(to, fake) if same_memory else None


def _replayed(n, source, fake):
    """What n would be if `fake` were the result of node `source`."""
    if n is source:
        return fake
    operand = _replayed(n.args[0], source, fake)
    args, kwargs = _arguments(n)
    return n.target(operand, *args, **kwargs)


def _arguments(n):
    """(arguments behind the first, keywords) of a view, with values in place of nodes."""
    return torch.fx.map_arg((n.args[1:], n.kwargs), lambda m: m.meta["val"])

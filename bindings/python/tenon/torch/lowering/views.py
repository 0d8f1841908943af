"""Views that the host makes of the memory of results and inputs. Tested by tests/torch/test_views_of_updated_inputs.py."""

import dataclasses
import operator

import torch

from . import sizes
from .node import name_of


@dataclasses.dataclass(frozen=True)
class HostView:
    """A view of the memory of the tensor of fx node `base`. fake: has the sizes, strides and storage offset of the view."""

    base: torch.fx.Node
    fake: torch.Tensor

    @property
    def offset(self):
        """The storage offset relative to that of the base."""
        return sizes.size(sizes.size(self.fake.storage_offset()) - sizes.size(self.base.meta["val"].storage_offset()))

    def symbols(self):
        return sizes.symbols_of(*map(sizes.size, (*self.fake.shape, *self.fake.stride(), self.offset)))


def is_view(n, table):
    """Whether node n is a view of its first argument, by its row in the op table."""
    if n.op != "call_function":
        return False
    if n.target is operator.getitem:
        return is_view(n.args[0], table)
    row = table.get(name_of(n.target))
    return row is not None and row.view


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
    args, kwargs = torch.fx.map_arg((n.args[1:], n.kwargs), lambda m: m.meta["val"])
    return n.target(operand, *args, **kwargs)

"""Recurrent layers (nn.LSTM, nn.GRU, nn.RNN) as whole operators.

Dynamo breaks the graph at a recurrent layer unless its setting allow_rnn is true, and AOTAutograd would unroll the layer's steps.
allow() makes the setting true where Tenon compiles without gradients. keep_whole() replaces the layers of Dynamo's graph by operators
tenon::lstm, tenon::gru, ..., which AOTAutograd keeps; they call PyTorch's own. ops/contract.py lowers them.
Layers that need gradients stay as they are: PyTorch's operator, between two graphs. So do layers on packed sequences, because their
sizes depend on values and Dynamo breaks the graph there. Tested by tests/torch/test_recurrent.py.
"""

import sys

import torch
from torch import _VF

ARGUMENTS = "Tensor input, {} hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first"
MODES = ("lstm", "gru", "rnn_tanh", "rnn_relu")
_library = torch.library.Library("tenon", "FRAGMENT")


def _define(mode):
    state, results = ("Tensor[]", "(Tensor, Tensor, Tensor)") if mode == "lstm" else ("Tensor", "(Tensor, Tensor)")
    _library.define(f"{mode}({ARGUMENTS.format(state)}) -> {results}")
    _library.impl(mode, _contiguous(getattr(_VF, mode)), "CompositeExplicitAutograd")

    @torch.library.register_fake(f"tenon::{mode}", lib=_library)
    def _(x, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
        states = hx if mode == "lstm" else [hx]
        length, batch = (x.shape[1], x.shape[0]) if batch_first else x.shape[:2]
        y = x.new_empty(length, batch, states[0].shape[2] * (2 if bidirectional else 1))
        return (y.transpose(0, 1) if batch_first else y, *(s.new_empty(s.shape) for s in states))


def _contiguous(function):
    """The function, with results in the strides that the fakes have."""
    def run(*args):
        y, *states = function(*args)
        dense = y if y.is_contiguous() or y.transpose(0, 1).is_contiguous() else y.contiguous()
        return (dense, *(s.contiguous() for s in states))

    return run


for _mode in MODES:
    _define(_mode)
FUNCTIONS = {getattr(_VF, mode): mode for mode in MODES}


def keep_whole(gm, example_inputs):
    """Replaces the recurrent layers of a graph that needs no gradients."""
    if not isinstance(gm, torch.fx.GraphModule):
        return
    if torch.is_grad_enabled() and any(isinstance(t, torch.Tensor) and t.requires_grad for t in (*example_inputs, *gm.parameters())):
        return
    for n in gm.graph.nodes:
        if n.op == "call_function" and n.target in FUNCTIONS and not n.kwargs and isinstance(n.args[2], (list, tuple)):  # not packed
            n.target = getattr(torch.ops.tenon, FUNCTIONS[n.target]).default


class _WhereTenonCompiles(int):
    """The value of torch._dynamo.config.allow_rnn: true while Dynamo traces for Tenon and gradients are off. Other backends keep
    PyTorch's default, false. Dynamo offers backends no setting of their own, so this asks for whom the caller compiles. An int, because
    PyTorch writes its settings as JSON."""

    def __bool__(self):
        if torch.is_grad_enabled():
            return False
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_name == "_compile" and "compiler_fn" in frame.f_locals:
                return _is_tenon(frame.f_locals["compiler_fn"])
            frame = frame.f_back
        return False

    def __repr__(self):
        return "True where Tenon compiles without gradients"


def _is_tenon(function):
    while function is not None:
        if getattr(function, "keeps_recurrent_layers", False):
            return True
        function = getattr(function, "_torchdynamo_orig_backend", None) or getattr(function, "compiler_fn", None)
    return False


def allow(backend):
    """Marks a backend as one that keeps recurrent layers whole. A user's own value of the setting stays."""
    backend.keeps_recurrent_layers = True
    if torch._dynamo.config.allow_rnn is False:
        torch._dynamo.config.allow_rnn = _WhereTenonCompiles()

"""Recurrent layers (nn.LSTM, nn.GRU, nn.RNN).

Dynamo breaks the graph at a recurrent layer unless its setting allow_rnn is true, and AOTAutograd would unroll the layer's steps.
allow() makes the setting true where Tenon can compute the layer. keep_whole() replaces the layers of Dynamo's graph by operators tenon::lstm,
tenon::gru, ... For AOTAutograd these are compositions: products for the gates of all steps, and for each layer and direction the operator
tenon::recurrent, which walks along the sequence, and which has a gradient. Layers that tenon::recurrent cannot compute stay PyTorch's:
one operator, tenon::whole_lstm, ..., where nobody needs gradients. Packed sequences stay with PyTorch too, because their sizes depend on
values and Dynamo breaks the graph there. Tested by tests/torch/test_recurrent.py and test_training_recurrent.py.
"""

import sys

import torch
from torch import _VF
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.nn.functional import linear
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils.flop_counter import register_flop_formula

from . import tracing

ARGUMENTS = "Tensor input, {} hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first"
MODES = ("lstm", "gru", "rnn_tanh", "rnn_relu")
FUNCTIONS = {getattr(_VF, mode): mode for mode in MODES}
_library = torch.library.Library("tenon", "FRAGMENT")


# --- a layer in one direction -----------------------------------------------------------------------------------------
# mode: lstm (gates i, f, g, o), gru (r, z, n), tanh, relu. x [T,B,G*H]: what the gates get from the sequence; h [B,P]: the state before the first
# step; w [G*H,P], b [G*H]: the gates get h w^T + b too; c [B,H]: the cell of an LSTM before the first step; p [P,H]: a projection of an LSTM.
# reverse: the layer walks from the last step to the first.
_library.define("recurrent(Tensor x, Tensor h, Tensor w, Tensor b, Tensor? c, Tensor? p, str mode, bool reverse) -> (Tensor, Tensor)")
_library.define("recurrent_gradient(Tensor dy, Tensor dcell, Tensor y, Tensor h, Tensor w, Tensor? x, Tensor? s, Tensor? c, str mode, bool reverse)"
                " -> (Tensor, Tensor, Tensor, Tensor)")


def _walk(length, reverse):
    return reversed(range(length)) if reverse else range(length)


def _lstm_gates(sums):
    i, f, g, o = sums.chunk(4, 1)
    return i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()


def _gru_gates(x, s):
    (xr, xz, xn), (sr, sz, sn) = x.chunk(3, 1), s.chunk(3, 1)
    r, z = (xr + sr).sigmoid(), (xz + sz).sigmoid()
    return r, z, (xn + r * sn).tanh(), sn


@torch.library.impl(_library, "recurrent", "CompositeExplicitAutograd")
def _(x, h, w, b, c, p, mode, reverse):
    """(the hidden states [T,B,P], the last cell [B,H] of an LSTM, else an empty tensor)"""
    y = x.new_empty((*x.shape[:2], h.shape[1]))
    for t in _walk(len(x), reverse):
        s = linear(h, w, b)
        if mode == "lstm":
            i, f, g, o = _lstm_gates(x[t] + s)
            c = f * c + i * g
            h = o * c.tanh()
            h = h if p is None else h @ p.T
        elif mode == "gru":
            r, z, n, _ = _gru_gates(x[t], s)
            h = n + z * (h - n)
        else:
            h = getattr(x[t] + s, mode)()
        y[t] = h
    return y, x.new_empty(0) if c is None else c.clone()


@torch.library.register_fake("tenon::recurrent", lib=_library)
def _(x, h, w, b, c, p, mode, reverse):
    return x.new_empty((*x.shape[:2], h.shape[1])), x.new_empty(0) if c is None else x.new_empty(c.shape)


@torch.library.impl(_library, "recurrent_gradient", "CompositeExplicitAutograd")
def _(dy, dcell, y, h, w, x, s, c, mode, reverse):
    """The gradients (of x, of what the gates get from the states if these differ, of h, of c), for those of y and of the last cell. There is no
    projection. s [T,B,G*H]: what the gates get from the states. LSTM and GRU alone have x and s, and LSTM alone c."""
    order = list(_walk(len(y), reverse))
    dx, dh = y.new_empty((*y.shape[:2], w.shape[0])), torch.zeros_like(h)
    ds = torch.empty_like(dx) if mode == "gru" else dx
    cells = [c]
    if mode == "lstm":
        for t in order:
            i, f, g, _ = _lstm_gates(x[t] + s[t])
            cells.append(f * cells[-1] + i * g)
    for step, t in reversed(list(enumerate(order))):
        dh = dh + dy[t]
        direct = 0
        if mode == "lstm":
            i, f, g, o = _lstm_gates(x[t] + s[t])
            end = cells[step + 1].tanh()
            dcell = dcell + dh * o * (1 - end * end)
            dx[t] = torch.cat([dcell * g * i * (1 - i), dcell * cells[step] * f * (1 - f), dcell * i * (1 - g * g), dh * end * o * (1 - o)], 1)
            dcell = dcell * f
        elif mode == "gru":
            before = y[order[step - 1]] if step else h
            r, z, n, sn = _gru_gates(x[t], s[t])
            dn = dh * (1 - z) * (1 - n * n)
            dr, dz = dn * sn * r * (1 - r), dh * (before - n) * z * (1 - z)
            dx[t], ds[t] = torch.cat([dr, dz, dn], 1), torch.cat([dr, dz, dn * r], 1)
            direct = dh * z
        else:
            dx[t] = dh * (1 - y[t] * y[t]) if mode == "tanh" else dh.masked_fill(y[t] <= 0, 0)
        dh = ds[t] @ w + direct
    return dx, ds if mode == "gru" else y.new_empty(0), dh.contiguous(), dcell.clone() if mode == "lstm" else y.new_empty(0)


@torch.library.register_fake("tenon::recurrent_gradient", lib=_library)
def _(dy, dcell, y, h, w, x, s, c, mode, reverse):
    dx = y.new_empty((*y.shape[:2], w.shape[0]))
    ds, dc = (torch.empty_like(dx) if mode == "gru" else y.new_empty(0)), (y.new_empty(0) if c is None else y.new_empty(c.shape))
    return dx, ds, y.new_empty(h.shape), dc


def _save(ctx, inputs, output):
    x, h, w, b, c, _, ctx.mode, ctx.reverse = inputs
    ctx.save_for_backward(x if ctx.mode in ("lstm", "gru") else None, h, w, b, c, output[0])


def _backward(ctx, dy, dcell):
    x, h, w, b, c, y = ctx.saved_tensors
    before = torch.cat([y[1:], h[None]] if ctx.reverse else [h[None], y[:-1]])  # the state before each step
    s = None if x is None else linear(before, w, b)
    dx, ds, dh, dc = torch.ops.tenon.recurrent_gradient(dy, dcell, y, h, w, x, s, c, ctx.mode, ctx.reverse)
    ds = (ds if ctx.mode == "gru" else dx).flatten(0, 1)
    return dx, dh, ds.T @ before.flatten(0, 1), ds.sum(0), None if c is None else dc, None, None, None


torch.library.register_autograd("tenon::recurrent", _backward, setup_context=_save, lib=_library)


# PyTorch's min-cut with a budget asks how long an operator takes.
@register_flop_formula(torch.ops.tenon.recurrent)
def _(x, h, w, *others, **keywords):
    return 2 * x[0] * x[1] * w[0] * w[1]


@register_flop_formula(torch.ops.tenon.recurrent_gradient)
def _(dy, dcell, y, h, w, *others, **keywords):
    return 2 * y[0] * y[1] * w[0] * w[1]


# --- all layers of a module -------------------------------------------------------------------------------------------
def _define(mode):
    signature = ARGUMENTS.format("Tensor[]") + ") -> (Tensor, Tensor, Tensor)" if mode == "lstm" else ARGUMENTS.format("Tensor") + ") -> (Tensor, Tensor)"
    _library.define(f"{mode}({signature}")
    _library.impl(mode, _composition(mode), "CompositeImplicitAutograd")
    whole = f"whole_{mode}"
    _library.define(f"{whole}({signature}")
    _library.impl(whole, _contiguous(getattr(_VF, mode)), "CompositeExplicitAutograd")

    @torch.library.register_fake(f"tenon::{whole}", lib=_library)
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


def _composition(mode):
    def run(x, hx, params, *rest):
        if _composes(mode, x, hx, params, rest[-1]):
            states = hx if mode == "lstm" else [hx]
            return _layers(mode.removeprefix("rnn_"), x, states, params, _projects(mode, states), *rest)
        whole = not _in_autocast() and not _needs_gradients(x, hx, params)
        return (getattr(torch.ops.tenon, f"whole_{mode}") if whole else getattr(_VF, mode))(x, hx, params, *rest)

    return run


def _tensors(x, hx, params):
    return (x, *(hx if isinstance(hx, (tuple, list)) else [hx]), *params)


def _needs_gradients(x, hx, params):
    return torch.is_grad_enabled() and any(t.requires_grad for t in _tensors(x, hx, params))


def _projects(mode, states):
    return mode == "lstm" and states[0].shape[2] != states[1].shape[2]


def _composes(mode, x, hx, params, batch_first):
    """Whether tenon::recurrent computes layers with these operands. A sequence without steps is PyTorch's error."""
    if not _fits(_tensors(x, hx, params)) or statically_known_true(x.shape[1 if batch_first else 0] == 0):
        return False
    return not (_projects(mode, hx) and _needs_gradients(x, hx, params))


def _in_autocast():
    """Whether the caller is in autocast, whose casts of the operands of a recurrent layer depend on PyTorch's kernel."""
    return torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")


def _fits(tensors):
    """Whether tenon::recurrent takes tensors of these dtypes and devices where the caller is: not in autocast or a transform of torch.func."""
    if _in_autocast() or torch._C._functorch.peek_interpreter_stack() is not None:  # torch.func.grad, vmap, ...
        return False
    return all(t.dtype == torch.float32 and t.device.type == "cpu" and not is_traceable_wrapper_subclass(t) for t in tensors)


def _layers(mode, x, states, params, projects, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """Returns the results of torch._VF's function: hidden states, last hidden states and, of an LSTM, last cells."""
    each, directions = 2 + 2 * has_biases + projects, 2 if bidirectional else 1
    lasts, cells = [], []
    for layer in range(num_layers):
        outputs = []
        for reverse in (False, True)[:directions]:
            which = len(lasts)
            input_weight, w, *biases = params[which * each:(which + 1) * each]
            p = biases.pop() if projects else None
            input_bias, b = biases or (None, x.new_zeros(w.shape[0]))
            gates = linear(x, input_weight, input_bias)
            gates = gates.transpose(0, 1) if batch_first and layer == 0 else gates
            c = states[1][which] if mode == "lstm" else None
            y, cell = torch.ops.tenon.recurrent(gates, states[0][which], w, b, c, p, mode, reverse)
            outputs.append(y)
            lasts.append(y[0 if reverse else -1])
            cells.append(cell)
        x = torch.cat(outputs, 2) if bidirectional else y
        if train and dropout and layer < num_layers - 1:
            x = torch.dropout(x, dropout, True)
    y = x.transpose(0, 1) if batch_first else x
    return (y, torch.stack(lasts), torch.stack(cells)) if mode == "lstm" else (y, torch.stack(lasts))


def _trace_whole(mode):
    """While Dynamo traces for Tenon, PyTorch's operator is the composition. Its own walks through all steps, so each length would be traced
    again, in a time that grows with the length."""

    def whole(x, hx, params, *rest):
        if _traces_for_tenon(sys._getframe(1)) and _composes(mode, x, hx, params, rest[-1]):
            return getattr(torch.ops.tenon, mode)(x, hx, params, *rest)
        return None

    tracing.replace_kernel(getattr(torch.ops.aten, mode).input, torch._C.DispatchKey.CompositeImplicitAutograd, whole)


for _mode in MODES:
    _define(_mode)
    _trace_whole(_mode)


def keep_whole(gm):
    """Replaces the recurrent layers of Dynamo's graph, and of the graphs inside it, such as that of a checkpointed region."""
    for n in (n for m in gm.modules() if isinstance(m, torch.fx.GraphModule) for n in m.graph.nodes):
        if n.op == "call_function" and n.target in FUNCTIONS and not n.kwargs and isinstance(n.args[2], (list, tuple)):  # not packed
            n.target = getattr(torch.ops.tenon, FUNCTIONS[n.target]).default


# --- Dynamo's setting -------------------------------------------------------------------------------------------------
class _WhereTenonCompiles(int):
    """The value of torch._dynamo.config.allow_rnn: true while Dynamo traces a module for Tenon outside of autocast, if gradients are off
    or Tenon computes those of the module. Other backends keep PyTorch's default, false. Dynamo offers backends no setting of their own,
    so this asks for whom the caller compiles. An int, because PyTorch writes its settings as JSON."""

    def __bool__(self):
        frame = sys._getframe(1)
        if _in_autocast() or torch.is_grad_enabled() and not _has_gradients(frame.f_locals.get("value")):
            return False
        return _traces_for_tenon(frame)

    def __repr__(self):
        return "True where Tenon compiles and computes the gradients"


def _has_gradients(module):
    """Whether Tenon computes the gradients of a recurrent module."""
    return isinstance(module, torch.nn.RNNBase) and not module.proj_size and _fits(list(module.parameters()))


def _traces_for_tenon(frame):
    """Whether Dynamo calls the frame while it compiles for Tenon."""
    while frame is not None:
        if frame.f_code.co_name == "_compile" and "compiler_fn" in frame.f_locals:
            return _is_tenon(frame.f_locals["compiler_fn"])
        frame = frame.f_back
    return False


def _is_tenon(function):
    while function is not None:
        if getattr(function, "keeps_recurrent_layers", False):
            return True
        function = getattr(function, "_torchdynamo_orig_backend", None) or getattr(function, "compiler_fn", None)
    return False


def allow(backend):
    """Marks a backend as one that computes recurrent layers. A user's own value of the setting stays."""
    backend.keeps_recurrent_layers = True
    if torch._dynamo.config.allow_rnn is False:
        torch._dynamo.config.allow_rnn = _WhereTenonCompiles()

"""Rows of recurrent layers, which ../recurrent.py keeps whole. How rows are written: row.py.

A layer and direction is one product for the inputs of the gates of all steps, then the op `recurrent`, which walks along the
sequence. Tested by tests/torch/test_recurrent.py.
"""

from ...graph_text import Unsupported
from ..lowering.sizes import product, size
from .row import row


class _Layer:
    """One layer in one direction. weights: of the input, of the state, their two biases or None, the projection or None."""

    def __init__(self, e, mode, state, cell, weights, reverse):
        self.e, self.mode, self.state, self.cell, self.reverse = e, mode, state, cell, reverse
        self.input_weight, self.weight, self.input_bias, self.bias, self.projection = weights

    def run(self, x, batch_first, wants_cell):
        """(hidden states [T,B,P], last hidden state [1,B,P], last cell [1,B,H] or None). x: [T,B,C], or [B,T,C]."""
        e, gates = self.e, self.weight.shape[0]
        inputs = e.op("linear", [x, self.input_weight, self.input_bias], "f32", (*x.shape[:-1], gates))
        inputs = e.swap(inputs, 0, 1) if batch_first else inputs
        length, batch, width = inputs.shape[0], inputs.shape[1], self.weight.shape[1]
        shape, count = (length, batch, width), product((length, batch, width))
        bias = self.bias or e.full(0.0, "f32", (gates,))
        operands = [inputs, self.state, self.weight, bias, self.cell, self.projection]
        if not wants_cell:
            y = e.op("recurrent", operands, "f32", shape, mode=self.mode, reverse=self.reverse)
            return y, self._last(y), None
        last = (1, batch, self.cell.shape[1])
        end = size(count + product(last))
        both = e.op("recurrent", operands, "f32", (end,), mode=self.mode, reverse=self.reverse, cell=True)
        y = e.reshape(e.slice(both, 0, 0, count), shape)
        return y, self._last(y), e.reshape(e.slice(both, 0, count, end), last)

    def _last(self, y):
        at = 0 if self.reverse else size(y.shape[0] - 1)
        return self.e.slice(y, 0, at, size(at + 1))


def _state(e, states, which):
    return e.reshape(e.slice(states, 0, which, which + 1), states.shape[1:])


def _layers(e, mode, x, states, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """(hidden states of the last layer, last hidden states, last cells) of all layers."""
    if e.device.type != "cpu":
        raise Unsupported("a recurrent layer on a GPU")
    if any(v.dtype != "f32" for v in (x, *states, *params)):
        raise Unsupported(f"a recurrent layer of {x.dtype}")
    if train and dropout > 0 and num_layers > 1:
        raise Unsupported("dropout between recurrent layers")
    directions = 2 if bidirectional else 1
    projects = mode == "lstm" and states[0].shape[2] != states[1].shape[2]
    each = 2 + 2 * has_biases + projects
    lasts, cells = [], []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            which = layer * directions + direction
            given = list(params[which * each:(which + 1) * each])
            weights = given[:2] + (given[2:4] if has_biases else [None, None]) + (given[-1:] if projects else [None])
            cell = _state(e, states[1], which) if mode == "lstm" else None
            one = _Layer(e, mode, _state(e, states[0], which), cell, weights, direction == 1)
            y, last, last_cell = one.run(x, batch_first and layer == 0, mode == "lstm" and e.used(2))
            outputs.append(y)
            lasts.append(last)
            cells.append(last_cell)
        x = e.concat(outputs, 2)
    return (e.swap(x, 0, 1) if batch_first else x, e.concat(lasts, 0) if e.used(1) else None,
            e.concat(cells, 0) if mode == "lstm" and e.used(2) else None)


@row("tenon.lstm")
def _(e, x, hx, *rest):
    return _layers(e, "lstm", x, hx, *rest)


def _of_state(name, mode):
    @row("tenon." + name)
    def _(e, x, hx, *rest):
        return _layers(e, mode, x, [hx], *rest)[:2]


for _name, _mode in (("gru", "gru"), ("rnn_tanh", "tanh"), ("rnn_relu", "relu")):
    _of_state(_name, _mode)


@row("tenon.lstm_packed", "tenon.gru_packed", "tenon.rnn_tanh_packed", "tenon.rnn_relu_packed")
def _(e, *args):
    raise Unsupported("a recurrent layer on a packed sequence")

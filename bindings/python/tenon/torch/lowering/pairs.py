"""Computes complex numbers as pairs of real numbers.

Tenon has no complex dtypes. rewrite() gives each real result that a graph computes from complex values, such as view_as_real(x * table) of a
rotary embedding, a second computation on tensors with one more axis of two elements, the real and the imaginary part. A complex input, or a
complex result of PyTorch, enters it by view_as_real, which copies nothing. Complex nodes that somebody else reads, such as a Fourier
transform, stay as they are.
Tested by tests/torch/test_complex.py.
"""

import contextlib
import functools
import inspect
import operator

import torch

from .maker import Maker

aten = torch.ops.aten
VIEWS = (aten.view_as_real.default,)  # PyTorch makes these views of tensors that Tenon does not compute


class Unpaired(Exception):
    """No rule computes a node by pairs."""


def is_complex(n):
    """Whether the result of a node is a tensor whose pairs have the precision of its arithmetic."""
    val = n.meta.get("val") if isinstance(n, torch.fx.Node) else None
    return isinstance(val, torch.Tensor) and val.dtype in (torch.complex64, torch.complex128)


def rewrite(gm):
    """Rewrites the graph in place."""
    if not any(map(is_complex, gm.graph.nodes)):
        return
    pairs, replaced = _Pairs(gm.graph), set()
    for n in list(gm.graph.nodes):
        rule = REAL.get(n.target) if n.op == "call_function" and is_complex(n.args[0] if n.args else None) else None
        if rule is None:
            continue
        try:
            with gm.graph.inserting_before(n), pairs.instead_of(n):
                n.replace_all_uses_with(_laid_out_like(n, pairs, _applied(rule, pairs, *n.args, **n.kwargs)))
        except Unpaired:
            continue
        replaced.add(n)
    # Erases the replaced nodes, the complex ones that only these have read, and what a rule has made before it gave up.
    for n in reversed(list(gm.graph.nodes)):
        if not n.users and n.op == "call_function" and (n in replaced or n in pairs.new or n in pairs.made):
            gm.graph.erase_node(n)


def _laid_out_like(n, p, made):
    """A node with the elements of `made` and the strides of n, which views of n follow. Strides are compared by their values in the call that
    is traced, because PyTorch writes equal ones in many ways."""
    def steps(x):
        value = lambda s: s if isinstance(s, int) else s.node.hint
        val = x.meta["val"]
        return [0 if value(size) == 1 else value(step) for size, step in zip(val.shape, val.stride())]

    wanted = steps(n)
    if steps(made) == wanted:
        return made
    if None in wanted:
        raise Unpaired(n.name)
    order = sorted(range(len(wanted)), key=lambda axis: -wanted[axis])
    stored = p(aten.clone.default, p(aten.permute.default, made, order), memory_format=torch.contiguous_format)
    made = p(aten.permute.default, stored, [order.index(axis) for axis in range(len(order))])
    if steps(made) != wanted:
        raise Unpaired(n.name)
    return made


def _applied(rule, *args, **keywords):
    """The node that a rule returns. A rule has no parameter for an argument that it does not follow, such as the dtype of a sum."""
    try:
        inspect.signature(rule).bind(*args, **keywords)
    except TypeError as e:
        raise Unpaired(str(e)) from e
    return rule(*args, **keywords)


class _Pairs(Maker):
    """Adds the nodes that compute pairs to a graph."""

    def __init__(self, graph):
        super().__init__(graph, next(n.meta["val"].fake_mode for n in graph.nodes if isinstance(n.meta.get("val"), torch._subclasses.FakeTensor)))
        self.source, self.new = None, set()
        self.made = {}    # complex node -> its pairs, or the pairs of its parts
        self.joined = {}  # pairs -> their parts, if join() made them

    @contextlib.contextmanager
    def instead_of(self, n):
        """New nodes get what PyTorch has noted of node n, such as the region of torch.utils.checkpoint."""
        before, self.source = self.source, n
        try:
            yield
        finally:
            self.source = before

    def __call__(self, target, *args, **keywords):
        try:
            node = super().__call__(target, *args, **keywords)
        except RuntimeError as e:  # such as a view of strides that do not fit
            raise Unpaired(self.source.name) from e
        self.new.add(node)
        node.meta |= {key: value for key, value in self.source.meta.items() if key not in ("val", "tensor_meta")}
        return node

    def of(self, n):
        """The pairs of a complex node, or of a number: a real node with one more axis."""
        if isinstance(n, (int, float, complex)):  # an operand of _conj
            val = self.source.meta["val"]
            make = lambda part: self(aten.scalar_tensor.default, part, dtype=_part_of(val.dtype), device=val.device)
            return self.join(make(n.real), make(n.imag))
        if n not in self.made:
            rule = COMPLEX.get(n.target) if n.op == "call_function" else None
            if rule is not None:
                with self.instead_of(n):
                    self.made[n] = _applied(rule, self, n, *n.args, **n.kwargs)
            elif n.meta["val"].is_conj():  # a lazy conjugate, which has no view of real numbers
                raise Unpaired(n.name)
            else:
                self.made[n] = self(aten.view_as_real.default, n)
        return self.made[n]

    def parts(self, x):
        """The real and the imaginary part of a pair."""
        return self.joined.get(x) or (self(aten.select.int, x, -1, 0), self(aten.select.int, x, -1, 1))

    def join(self, re, im):
        """The pairs of two parts of the same shape."""
        pair = self(aten.cat.default, [self(aten.unsqueeze.default, part, -1) for part in (re, im)], -1)
        self.joined[pair] = re, im
        return pair

    @staticmethod
    def axis(axis):
        """The number of an axis of complex numbers in their pairs."""
        return axis if axis >= 0 else axis - 1


REAL = {}     # op with a real result of a complex operand -> rule(pairs, operands...) -> node
COMPLEX = {}  # op with a complex result -> rule(pairs, node, operands...) -> node with one more axis


def _rule(table, *targets):
    def add(f):
        table.update(dict.fromkeys(targets, f))
        return f
    return add


# Real results ---------------------------------------------------------------------------------------------

@_rule(REAL, aten.view_as_real.default)
def _(p, x):
    return p.of(x)


@_rule(REAL, aten.abs.default)
def _(p, x):
    return p(aten.hypot.default, *p.parts(p.of(x)))


@_rule(REAL, aten.angle.default)
def _(p, x):
    re, im = p.parts(p.of(x))
    return p(aten.atan2.default, im, re)


# Complex results ------------------------------------------------------------------------------------------

@_rule(COMPLEX, aten.view_as_complex.default)
def _(p, n, x):
    return x


@_rule(COMPLEX, aten.complex.default)
def _(p, n, re, im):
    if re.meta["val"].shape != im.meta["val"].shape:
        raise Unpaired(n.name)
    return p.join(re, im)


@_rule(COMPLEX, aten.polar.default)
def _(p, n, length, angle):
    return _polar(p, length, angle)


def _polar(p, length, angle):
    return p.join(*(p(aten.mul.Tensor, length, p(f, angle)) for f in (aten.cos.default, aten.sin.default)))


@_rule(COMPLEX, aten.alias.default, aten.detach.default, aten.resolve_conj.default, aten.resolve_neg.default)
def _(p, n, x):
    return p.of(x)


@_rule(COMPLEX, aten.clone.default)
def _(p, n, x, *, memory_format=None):
    return p(n.target, p.of(x))


@_rule(COMPLEX, aten.neg.default)
def _(p, n, x):
    return p(n.target, p.of(x))


@_rule(COMPLEX, aten._conj.default, aten.conj_physical.default)
def _(p, n, x):
    re, im = p.parts(p.of(x))
    return p.join(re, p(aten.neg.default, im))


@_rule(COMPLEX, aten.sgn.default)
def _(p, n, x):
    pair = p.of(x)
    length = p(aten.unsqueeze.default, p(aten.hypot.default, *p.parts(pair)), -1)
    return p(aten.where.self, p(aten.eq.Scalar, length, 0), p(aten.zeros_like.default, pair), p(aten.div.Tensor, pair, length))


@_rule(COMPLEX, aten.exp.default)
def _(p, n, x):
    re, im = p.parts(p.of(x))
    return _polar(p, p(aten.exp.default, re), im)


@_rule(COMPLEX, aten.pow.Tensor_Scalar)
def _(p, n, x, exponent):
    if exponent not in (1, 2):
        raise Unpaired(n.name)
    pair = p.of(x)
    return pair if exponent == 1 else _product(p, aten.mul.Tensor, pair, pair)


@_rule(COMPLEX, aten.add.Tensor, aten.sub.Tensor)
def _(p, n, x, y, *, alpha=1):
    if alpha != 1:
        raise Unpaired(n.name)
    if is_complex(x) and is_complex(y):
        return p(n.target, *_aligned(p, x, y))
    (a, b), (c, d) = _terms(p, x), _terms(p, y)
    im = b if d == 0 else p(n.target, b, d) if b != 0 else d if n.target is aten.add.Tensor else p(aten.neg.default, d)
    re = p(n.target, a, c)
    if not isinstance(im, torch.fx.Node) or re.meta["val"].shape != im.meta["val"].shape:
        raise Unpaired(n.name)
    return p.join(re, im)


def _terms(p, x):
    """The parts of a complex or real node, or of a number. The imaginary part of a real one is 0."""
    if is_complex(x):
        return p.parts(p.of(x))
    return (x.real, x.imag) if isinstance(x, complex) else (x, 0)


@_rule(COMPLEX, aten.mul.Tensor)
def _(p, n, x, y):
    if not is_complex(x):
        x, y = y, x
    if isinstance(x, complex):  # times a real tensor
        return p.join(p(aten.mul.Tensor, y, x.real), p(aten.mul.Tensor, y, x.imag))
    if not is_complex(y):
        return _scaled(p, n, aten.mul.Tensor, x, y)
    return _product(p, aten.mul.Tensor, *_aligned(p, x, y))


@_rule(COMPLEX, aten.mm.default, aten.bmm.default)
def _(p, n, x, y):
    return _product(p, n.target, p.of(x), p.of(y))


def _product(p, op, x, y):
    (a, b), (c, d) = p.parts(x), p.parts(y)
    return p.join(p(aten.sub.Tensor, p(op, a, c), p(op, b, d)), p(aten.add.Tensor, p(op, a, d), p(op, b, c)))


@_rule(COMPLEX, aten.mul.Scalar, aten.div.Scalar)
def _(p, n, x, number):
    return _scaled(p, n, n.target, x, number)


@_rule(COMPLEX, aten.div.Tensor)
def _(p, n, x, y):
    if not is_complex(x):
        raise Unpaired(n.name)
    if not is_complex(y):
        return _scaled(p, n, aten.div.Tensor, x, y)
    (a, b), (c, d) = (p.parts(v) for v in _aligned(p, x, y))
    c, d, square = _divisor(p, c, d)
    mul = functools.partial(p, aten.mul.Tensor)
    return p.join(p(aten.div.Tensor, p(aten.add.Tensor, mul(a, c), mul(b, d)), square),
                  p(aten.div.Tensor, p(aten.sub.Tensor, mul(b, c), mul(a, d)), square))


@_rule(COMPLEX, aten.reciprocal.default)
def _(p, n, x):
    c, d, square = _divisor(p, *p.parts(p.of(x)))
    return p.join(p(aten.div.Tensor, c, square), p(aten.div.Tensor, p(aten.neg.default, d), square))


def _divisor(p, c, d):
    """(c/s, d/s, (c^2 + d^2)/s), where s is the larger of |c| and |d|, so that no square overflows"""
    scale = p(aten.maximum.default, p(aten.abs.default, c), p(aten.abs.default, d))
    c, d = p(aten.div.Tensor, c, scale), p(aten.div.Tensor, d, scale)
    squares = p(aten.add.Tensor, p(aten.mul.Tensor, c, c), p(aten.mul.Tensor, d, d))
    return c, d, p(aten.mul.Tensor, squares, scale)


def _scaled(p, n, op, x, factor):
    """The product of a complex node and a number or a real node, or its quotient."""
    if isinstance(factor, complex):
        a, b = p.parts(p.of(x))
        if op not in (aten.mul.Tensor, aten.mul.Scalar):
            raise Unpaired(n.name)
        mul = functools.partial(p, aten.mul.Tensor)
        return p.join(p(aten.sub.Tensor, mul(a, factor.real), mul(b, factor.imag)), p(aten.add.Tensor, mul(a, factor.imag), mul(b, factor.real)))
    if isinstance(factor, torch.fx.Node) and isinstance(factor.meta["val"], torch.Tensor):
        if n.meta["val"].dtype != x.meta["val"].dtype:
            raise Unpaired(n.name)
        return p(op, _of_rank(p, x, factor.meta["val"].dim()), p(aten.unsqueeze.default, factor, -1))
    return p(op, p.of(x), factor)


def _aligned(p, x, y):
    """The pairs of two complex nodes with as many axes."""
    rank = max(x.meta["val"].dim(), y.meta["val"].dim())
    return _of_rank(p, x, rank), _of_rank(p, y, rank)


def _of_rank(p, x, rank):
    """The pairs of x, with axes of one element in front if x has less than `rank` axes."""
    pair = p.of(x)
    for _ in range(rank - x.meta["val"].dim()):
        pair = p(aten.unsqueeze.default, pair, 0)
    return pair


@_rule(COMPLEX, aten.view.default, aten._unsafe_view.default, aten.expand.default)
def _(p, n, x, shape):
    return p(n.target, p.of(x), [*shape, 2])


@_rule(COMPLEX, aten.permute.default)
def _(p, n, x, axes):
    return p(n.target, p.of(x), [*(p.axis(a) for a in axes), -1])


@_rule(COMPLEX, aten.transpose.int, aten.unsqueeze.default, aten.select.int, aten.slice.Tensor, aten.squeeze.dim)
def _(p, n, x, axis=0, *rest):
    if n.target is aten.transpose.int:
        return p(n.target, p.of(x), p.axis(axis), p.axis(*rest))
    return p(n.target, p.of(x), p.axis(axis), *rest)


@_rule(COMPLEX, aten.slice_backward.default, aten.select_backward.default)
def _(p, n, x, shape, axis, *rest):
    return p(n.target, p.of(x), [*shape, 2], p.axis(axis), *rest)


@_rule(COMPLEX, aten.flip.default)
def _(p, n, x, axes):
    return p(n.target, p.of(x), [p.axis(a) for a in axes])


@_rule(COMPLEX, aten.cumsum.default)
def _(p, n, x, axis):
    return p(n.target, p.of(x), p.axis(axis))


@_rule(COMPLEX, aten.constant_pad_nd.default)
def _(p, n, x, amounts, value=0):
    if value:
        raise Unpaired(n.name)
    return p(n.target, p.of(x), [0, 0, *amounts])


@_rule(COMPLEX, aten.where.self)
def _(p, n, condition, x, y):
    if not (is_complex(x) and is_complex(y)):
        raise Unpaired(n.name)
    return p(n.target, p(aten.unsqueeze.default, condition, -1), *_aligned(p, x, y))


@_rule(COMPLEX, aten.scalar_tensor.default)
def _(p, n, number, *, dtype, layout=None, device=None, pin_memory=None):
    number = complex(number)
    make = lambda part: p(n.target, part, dtype=_part_of(dtype), layout=layout, device=device, pin_memory=pin_memory)
    return p.join(make(number.real), make(number.imag))


def _part_of(dtype):
    return torch.float32 if dtype == torch.complex64 else torch.float64


@_rule(COMPLEX, aten.zeros_like.default)
def _(p, n, x, **keywords):
    return p(n.target, p.of(x))


@_rule(COMPLEX, aten._to_copy.default)
def _(p, n, x, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    real = _part_of(n.meta["val"].dtype)
    if n.meta["val"].device != x.meta["val"].device:
        raise Unpaired(n.name)
    if is_complex(x):
        return p(n.target, p.of(x), dtype=real)
    re = p(n.target, x, dtype=real)
    return p.join(re, p(aten.zeros_like.default, re))


@_rule(COMPLEX, aten.cat.default)
def _(p, n, tensors, axis=0):
    if not all(map(is_complex, tensors)):
        raise Unpaired(n.name)
    return p(n.target, [p.of(x) for x in tensors], p.axis(axis))


@_rule(COMPLEX, operator.getitem)
def _(p, n, parts, number):
    if parts not in p.made:
        if parts.target not in (aten.split_with_sizes.default, aten.split.Tensor):
            raise Unpaired(n.name)
        x, lengths, *axis = parts.args
        p.made[parts] = p(parts.target, p.of(x), lengths, p.axis(*axis) if axis else 0)
    return p(operator.getitem, p.made[parts], number)


@_rule(COMPLEX, aten.repeat.default)
def _(p, n, x, counts):
    return p(n.target, p.of(x), [*counts, 1])


@_rule(COMPLEX, aten.gather.default)
def _(p, n, x, axis, index):
    index = p(aten.unsqueeze.default, index, -1)
    return p(n.target, p.of(x), p.axis(axis), p(aten.expand.default, index, [-1] * (index.meta["val"].dim() - 1) + [2]))


@_rule(COMPLEX, aten.index.Tensor)
def _(p, n, x, indices):
    return p(n.target, p.of(x), list(indices))


@_rule(COMPLEX, aten.index_select.default)
def _(p, n, x, axis, index):
    return p(n.target, p.of(x), p.axis(axis), index)


@_rule(COMPLEX, aten.sum.dim_IntList, aten.mean.dim)
def _(p, n, x, axes, keepdim=False):
    axes = list(range(x.meta["val"].dim())) if not axes else [p.axis(a) for a in axes]
    return p(n.target, p.of(x), axes, keepdim)

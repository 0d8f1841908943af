"""Tensors, variables and sessions: a graph of Python objects that a session turns into programs of Tenon.

A Tensor knows how to add its nodes to a Graph. Session.run makes one program per set of fetches and fed placeholders; it serves
all sizes of the placeholders' symbolic axes. A program that assigns variables updates them in place.
"""

import itertools

import numpy

from .library import DTYPES, NUMPY, FlowError, Graph, Program, evaluated

_numbers = itertools.count()


class Tensor:
    """A value of the graph. lower(build, *operands) adds its nodes and returns their value; operands are values too."""

    dtype = None  # of placeholders and variables

    def __init__(self, lower, inputs=(), name=None):
        self.lower, self.inputs = lower, tuple(inputs)
        self.name = name or f"t{next(_numbers)}"

    def __repr__(self):
        return f"<{type(self).__name__} {self.name}>"

    def __add__(self, other): return op("add", self, other)
    def __radd__(self, other): return op("add", other, self)
    def __sub__(self, other): return op("sub", self, other)
    def __rsub__(self, other): return op("sub", other, self)
    def __mul__(self, other): return op("mul", self, other)
    def __rmul__(self, other): return op("mul", other, self)
    def __truediv__(self, other): return op("div", self, other)
    def __rtruediv__(self, other): return op("div", other, self)
    def __pow__(self, other): return op("pow", self, other)
    def __rpow__(self, other): return op("pow", other, self)
    def __matmul__(self, other): return op("matmul", self, other)
    def __neg__(self): return op("neg", self)


def op(name, *operands, **attrs):
    """A tensor computed by a row of Tenon's op table (docs/ops.md). An operand may be a number."""
    tensors = [x for x in operands if isinstance(x, Tensor)]

    def lower(build, *values):
        given = iter(values)
        values = [next(given) if isinstance(x, Tensor) else build.graph.number(x, values[0]) for x in operands]
        return build.graph.node(name, values, **attrs)

    return Tensor(lower, tensors)


def constant(array, name=None):
    array = numpy.asarray(array)
    array = array.astype("float32") if array.dtype == numpy.float64 else array
    return Tensor(lambda build: build.graph.constant(array), name=name)


class Placeholder(Tensor):
    def __init__(self, dtype, shape, name):
        super().__init__(None, name=name or f"placeholder{next(_numbers)}")
        self.dtype, self.shape = DTYPES[numpy.dtype(dtype)], shape


def placeholder(dtype="float32", shape=None, name=None):
    """A tensor that a call of Session.run feeds. shape: sizes; None or a name stands for any size, and equal names for equal
    sizes. The first axis is called N if it is None. Without a shape the first axis may have any size, and the other axes have the
    sizes of the array that is fed."""
    return Placeholder(dtype, shape, name)


class Variable(Tensor):
    """A tensor that keeps its value between calls. init: an array, a number, a Tensor that reads no placeholder, or None: then the
    layer that uses it decides its shape, from the shape of its data, and its first value."""

    dtype = "f32"

    def __init__(self, init=None, name=None, trainable=True, first=None):
        """first: sizes -> array; the value of a variable whose shape a layer decides."""
        super().__init__(None, name=name or f"variable{next(_numbers)}")
        self.init, self.trainable, self.first, self.sizes = init, trainable, first, None
        if isinstance(init, Tensor):
            build = Build({}, training=False)
            self.sizes = build.sizes(build.value(init))
        elif init is not None:
            self.init = numpy.asarray(init, "float32")
            self.sizes = [str(n) for n in self.init.shape]

    def lower_with(self, build, sizes):
        """The variable's value in the graph; a layer calls it with the sizes that it needs."""
        if any(not n.isdigit() for n in sizes):
            raise FlowError(f"the shape [{','.join(sizes)}] of {self.name} is not known before the sizes of the data are")
        if self.sizes not in (None, sizes):
            raise FlowError(f"{self.name} has shape [{','.join(self.sizes)}] and is used as [{','.join(sizes)}]")
        self.sizes = sizes
        return build.value(self)


class Action:
    """Something that a call does: assignments of variables, or `run(session)`."""

    def __init__(self, assigns=(), run=None):
        self.assigns, self.run = list(assigns), run


def assign(variable, value):
    """An action: the value replaces the variable's. Fetches of the same call see the former value."""
    return Action([(variable, value if isinstance(value, Tensor) else constant(numpy.asarray(value, "float32")))])


def group(*actions):
    return Action([pair for action in actions for pair in action.assigns])


def initialize_all_variables():
    """An action: gives every variable that has an initial value this value."""
    return Action(run=lambda session: session.initialize())


class _Gradients:
    """The gradients of one call of gradients(): computed once per graph."""

    def __init__(self, ys, xs, heads):
        self.ys, self.xs, self.heads = ys, xs, heads

    def lower(self, build):
        if self not in build.gradients:
            y, x = ([build.value(t) for t in list_] for list_ in (self.ys, self.xs))
            heads = self.heads and [build.value(t) for t in self.heads]
            build.gradients[self] = build.graph.gradients(y, x, heads)
        return build.gradients[self]


def gradients(ys, xs, grad_ys=None):
    """The gradients of the sum of all elements of ys by each tensor of xs. grad_ys: weights of these elements, per y."""
    ys, xs = ([t] if isinstance(t, Tensor) else list(t) for t in (ys, xs))
    all_ = _Gradients(ys, xs, grad_ys and list(grad_ys))
    return [Tensor(lambda build, i=i: all_.lower(build)[i], name=f"grad_{x.name}", inputs=()) for i, x in enumerate(xs)]


class Build:
    """One graph: the values of tensors in it, and what it reads and writes."""

    def __init__(self, fed, training):
        self.graph, self.training = Graph("flow"), training
        self.fed, self.inputs = fed, []  # placeholders and variables, in the order of the graph's inputs
        self.at, self.gradients, self.assigned = {}, {}, {}
        for p, array in fed.items():
            self._input(p, self._dims(p, array))

    def _input(self, tensor, dims):
        self.at[tensor] = self.graph.input(f"i{len(self.inputs)}", tensor.dtype, dims)
        self.inputs.append(tensor)

    def _dims(self, p, array):
        if p.shape is None:
            return [str(n) if i else "N" for i, n in enumerate(array.shape)]
        if len(p.shape) != array.ndim:
            raise FlowError(f"{p.name} has {len(p.shape)} axes, the array that is fed has shape {list(array.shape)}")
        return [str(n) if n is not None else f"N{i or ''}" for i, n in enumerate(p.shape)]

    def value(self, tensor):
        """The value of a tensor. Adds its nodes, and those that it reads, unless the graph has them."""
        stack = [tensor]
        while stack:
            t = stack[-1]
            if t in self.at:
                stack.pop()
            elif missing := [x for x in t.inputs if x not in self.at]:
                stack += missing
            else:
                stack.pop()
                self._add(t)
        return self.at[tensor]

    def _add(self, t):
        if isinstance(t, Placeholder):
            raise FlowError(f"{t.name} is not fed")
        if not isinstance(t, Variable):
            self.at[t] = t.lower(self, *(self.at[x] for x in t.inputs))
        elif t.sizes is None:
            raise FlowError(f"the shape of {t.name} is not known: no layer has used it yet")
        else:
            self._input(t, t.sizes)

    def sizes(self, value):
        return self.graph.type(value)[1]

    def assign(self, variable, value):
        """A layer's own assignment, as of running statistics."""
        self.assigned[variable] = value


class _Call:
    """A program with what a call of it needs."""

    def __init__(self, tensors, assigns, fed):
        build = Build(fed, training=bool(assigns))
        outputs = [build.value(t) for t in tensors]
        pairs = {variable: build.value(value) for variable, value in assigns}
        for variable in pairs:
            build.value(variable)
        pairs = build.assigned | pairs
        for variable, value in pairs.items():
            shape, given = (build.graph.type(v)[1] for v in (build.at[variable], value))
            if len(given) != len(shape) or any(n != m for n, m in zip(given, shape) if n.isdigit()):
                raise FlowError(f"{variable.name} has shape [{', '.join(shape)}], the value assigned to it has shape [{', '.join(given)}]")
        build.graph.finish(outputs, [(build.at[variable], value) for variable, value in pairs.items()])
        self.types = [build.graph.type(v) for v in outputs]
        self.graph, self.program, self.inputs = build.graph, Program(build.graph), build.inputs
        self.symbols = [(p, i, n) for p in fed for i, n in enumerate(build.graph.type(build.at[p])[1]) if n.isidentifier()]

    def run(self, session, fed):
        symbols = {name: fed[p].shape[axis] for p, axis, name in self.symbols}
        inputs = [fed[t] if isinstance(t, Placeholder) else session.value_of(t) for t in self.inputs]
        outputs = [numpy.empty([evaluated(n, symbols) for n in sizes], NUMPY[dtype]) for dtype, sizes in self.types]
        self.program.run(inputs, outputs)
        return outputs


class Session:
    """Keeps the values of variables, and the programs."""

    def __init__(self):
        self.values, self.calls, self.initialized = {}, {}, False

    def run(self, fetches, feed_dict=None):
        """Computes tensors and does actions. fetches: a Tensor, an Action or a list of them. feed_dict: placeholder -> array.
        Returns an array per tensor and None per action; a single one if fetches is no list."""
        one = not isinstance(fetches, (list, tuple))
        fetches = [fetches] if one else list(fetches)
        for f in fetches:
            if not isinstance(f, (Tensor, Action)):
                raise TypeError(f"a fetch is a Tensor or an Action, not {f!r}")
            if isinstance(f, Action) and f.run:
                f.run(self)
        tensors = list(dict.fromkeys(f for f in fetches if isinstance(f, Tensor)))
        assigns = [pair for f in fetches if isinstance(f, Action) for pair in f.assigns]
        results = {}
        if tensors or assigns:
            fed = {p: numpy.ascontiguousarray(a, NUMPY[p.dtype]) for p, a in (feed_dict or {}).items()}
            results = dict(zip(tensors, self._call(tensors, assigns, fed).run(self, fed)))
        values = [results.get(f) if isinstance(f, Tensor) else None for f in fetches]
        return values[0] if one else values

    def _call(self, tensors, assigns, fed):
        shapes = tuple((p, a.ndim if p.shape is not None else a.shape[1:]) for p, a in fed.items())
        key = (tuple(tensors), tuple(assigns), shapes)
        if key not in self.calls:
            for v, value in assigns:
                if not isinstance(v, Variable):
                    raise TypeError(f"{v!r} is not a Variable")
            self.calls[key] = _Call(tensors, assigns, fed)
        return self.calls[key]

    def initialize(self):
        """Forgets the values of all variables. Each gets its initial value when it is read next."""
        self.values.clear()
        self.initialized = True

    def value_of(self, variable):
        """The array of a variable. A call may write into it."""
        if variable not in self.values:
            if variable.init is not None and not self.initialized:
                raise FlowError(f"{variable.name} is not initialized: run initialize_all_variables() first")
            if variable.init is None:
                array = variable.first([int(n) for n in variable.sizes])
            else:
                array = self.run(variable.init) if isinstance(variable.init, Tensor) else variable.init
            self.values[variable] = numpy.array(array, NUMPY[variable.dtype], order="C")
        return self.values[variable]

    def explain(self, fetches, feed_dict=None):
        """The steps of the program for these fetches, and the reasons for them, as text. Nothing runs."""
        fetches = fetches if isinstance(fetches, (list, tuple)) else [fetches]
        tensors = [f for f in fetches if isinstance(f, Tensor)]
        assigns = [pair for f in fetches if isinstance(f, Action) for pair in f.assigns]
        fed = {p: numpy.ascontiguousarray(a, NUMPY[p.dtype]) for p, a in (feed_dict or {}).items()}
        return self._call(tensors, assigns, fed).program.explain()


def infer_variable_shapes(net, feed_dict):
    """Infers the shapes of the variables from the shapes of the data. feed_dict: placeholder -> shape. Returns a list of
    (variable, name, shape), in the order in which the net reads them."""
    fed = {p: numpy.empty(shape, NUMPY[p.dtype]) for p, shape in feed_dict.items()}
    build = Build(fed, training=False)
    build.value(net)
    return [(v, v.name, [int(n) for n in v.sizes]) for v in build.inputs if isinstance(v, Variable)]


def variables_of(*tensors):
    """The variables that the tensors read, each once, in the order in which they are reached."""
    found, seen, stack = [], set(), list(reversed(tensors))
    while stack:
        t = stack.pop()
        if t in seen:
            continue
        seen.add(t)
        if isinstance(t, Variable):
            found.append(t)
        stack += reversed(t.inputs + tuple(getattr(t, "variables", ())))
    return found

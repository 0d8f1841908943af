"""A stand-in for libtenon: the functions of the C ABI that tenon/_abi.py calls, over an interpreter of the graph text.

Slow and strict: every declared type is checked, every DLTensor is compared with the graph, and nothing is written on
failure. Goes away when the library itself serves these tests.
"""

import ctypes
import itertools
import math
import re

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import _disable_current_modes

DTYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
          "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool}
BYTES = {"f64": "i8", "f32": "i4", "f16": "i2", "bf16": "i2", "i64": "i8", "i32": "i4", "i16": "i2", "i8": "i1",
         "u8": "i1", "bool": "i1"}
CODES = {"f64": (2, 64), "f32": (2, 32), "f16": (2, 16), "bf16": (4, 16), "i64": (0, 64), "i32": (0, 32),
         "i16": (0, 16), "i8": (0, 8), "u8": (1, 8), "bool": (6, 8)}


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


assert ctypes.sizeof(DLTensor) == 48


class Wrong(Exception):
    def __init__(self, status, message):
        self.status = status
        super().__init__(message)


# --- text -------------------------------------------------------------------------------------------------------------
NAME = r"[A-Za-z_0-9][A-Za-z0-9_.]*"


def split(text, sep=","):
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += c in "([{"
        depth -= c in ")]}"
        if c == sep and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return parts + ([last] if last else [])


def parse_type(text):
    m = re.fullmatch(r"(\w+)\[(.*)\]", text.strip())
    if not m or m[1] not in DTYPES:
        raise Wrong(1, f"bad type {text!r}")
    return m[1], split(m[2])


class Graph:
    def __init__(self, text):
        m = re.fullmatch(r"graph @(\S+?)\((.*?)\) \{\n(.*)\n\}\n", text, re.S)
        if not m:
            raise Wrong(1, f"not a graph: {text[:80]!r}")
        self.name, self.inputs, self.nodes, self.outputs, self.facts = m[1], [], [], [], []
        for part in split(m[2]):
            i = re.fullmatch(rf"%({NAME}): (\w+\[[^\]]*\])( strides=\[(.*)\])?( param)?( = (\w+))?", part)
            if not i:
                raise Wrong(1, f"bad input {part!r}")
            self.inputs.append((i[1], parse_type(i[2]), split(i[4]) if i[3] else None, bool(i[5]), i[7]))
        for line in m[3].split("\n"):
            line = line.strip()
            if f := re.fullmatch(r"assume (\w+) in \[(\d+), (\d+)\]", line):
                self.facts.append((f[1], int(f[2]), int(f[3])))
            elif line.startswith("return "):
                for part in split(line[7:]):
                    o = re.fullmatch(rf"%({NAME})( strides=\[(.*)\])?", part)
                    self.outputs.append((o[1], split(o[3]) if o[2] else None))
            else:
                n = re.fullmatch(rf"%({NAME}) = (\w+)(?:\((.+?)\))?(\{{.*\}})? : (.*)", line)
                if not n:
                    raise Wrong(1, f"bad line {line!r}")
                attrs = dict(a.split("=", 1) for a in split(n[4][1:-1])) if n[4] else {}
                self.nodes.append((n[1], n[2], [o[1:] for o in split(n[3] or '')], attrs, parse_type(n[5])))
        known = {i[0] for i in self.inputs}
        if len(known) != len(self.inputs):
            raise Wrong(1, "duplicate input name")
        for name, head, operands, _, _ in self.nodes:
            if name in known:
                raise Wrong(1, f"duplicate name {name}")
            for o in operands:
                if o not in known:
                    raise Wrong(1, f"%{name}: no value %{o}")
            known.add(name)
            if head not in OPS:
                raise Wrong(2, f"%{name}: no op {head}")


def attribute(text, env):
    if text.startswith('"'):
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    if text in DTYPES:
        return DTYPES[text]
    if text.startswith("["):
        return [attribute(t, env) for t in split(text[1:-1])]
    return eval(text, {"inf": math.inf, "nan": math.nan, "max": max, "min": min, "__builtins__": {}}, dict(env))


# --- ops --------------------------------------------------------------------------------------------------------------
OPS = {}


def op(*names):
    def add(f):
        for name in names:
            OPS[name] = f
        return f
    return add


def wide(f):
    """16-bit floats compute in f32."""
    def g(*xs, **a):
        half = xs[0].dtype in (torch.float16, torch.bfloat16)
        y = f(*(x.float() if half and x.is_floating_point() else x for x in xs), **a)
        return y.to(xs[0].dtype) if half and y.is_floating_point() else y
    return g


for _name in ("neg abs sign reciprocal square sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sigmoid tanh erf erfc sin cos tan "
              "asin acos atan sinh cosh asinh acosh atanh floor ceil round trunc isnan isinf isfinite").split():
    OPS[_name] = wide(getattr(torch, _name))
for _name in "add sub mul remainder fmod pow maximum minimum atan2 eq ne lt le gt ge logical_and logical_or logical_xor".split():
    OPS[_name] = wide(getattr(torch, _name))
for _name in "bit_and:bitwise_and bit_or:bitwise_or bit_xor:bitwise_xor shift_left:bitwise_left_shift shift_right:bitwise_right_shift bit_not:bitwise_not logical_not:logical_not".split():
    OPS[_name.split(":")[0]] = getattr(torch, _name.split(":")[1])
OPS["div"] = wide(torch.div)
OPS["floor_div"] = wide(lambda a, b: torch.div(a, b, rounding_mode="floor"))
OPS["trunc_div"] = wide(lambda a, b: torch.div(a, b, rounding_mode="trunc"))
OPS["where"] = torch.where
OPS["clamp"] = wide(lambda x, low, high: torch.minimum(torch.maximum(x, low), high))
OPS["cast"] = lambda x, dtype: x.to(dtype)
OPS["full"] = lambda value, shape, dtype: torch.full(shape, value, dtype=dtype)
OPS["dim"] = lambda value, dtype=torch.int64: torch.tensor(value, dtype=dtype)


@op("iota")
def _(shape, dtype, axis=0, start=0, step=1):
    n = shape[axis]
    v = (torch.arange(n, dtype=torch.float64 if dtype.is_floating_point else torch.int64) * step + start).to(dtype)
    return v.reshape([n if i == axis else 1 for i in range(len(shape))]).expand(shape)


def axes_of(x, axes):
    return list(axes) if axes else list(range(x.dim()))


@op("sum", "prod", "max", "min", "any", "all", "mean", "logsumexp", "var")
def _(x, axes, keepdims=False, head=None, correction=1.0):
    axes, y = axes_of(x, axes), x
    if x.dim() == 0:
        x, axes = x.reshape(1), [0]
    if head == "var":
        r = torch.var(x.double(), axes, correction=correction, keepdim=keepdims).to(x.dtype)
    elif head in ("sum", "mean"):
        r = getattr(torch, head)(x.double() if x.is_floating_point() else x, axes, keepdim=keepdims).to(x.dtype)
    elif head == "logsumexp":
        r = torch.logsumexp(x, axes, keepdim=keepdims)
    else:
        r = x
        for a in sorted(axes, reverse=True):
            f = {"max": torch.amax, "min": torch.amin}.get(head) or getattr(torch, head)
            r = f(r, a, keepdim=keepdims)
        r = r.to(torch.bool if head in ("any", "all") else x.dtype)
    return r.reshape(()) if y.dim() == 0 else r


@op("argmax", "argmin")
def _(x, axis, keepdims=False, head=None):
    return getattr(torch, head)(x, axis, keepdim=keepdims)


OPS["cumsum"] = lambda x, axis: torch.cumsum(x, axis, dtype=x.dtype)
OPS["reshape"] = lambda x, shape: x.reshape(shape)
OPS["transpose"] = lambda x, perm: x.permute(perm)
OPS["expand"] = lambda x, shape: x.expand(shape)
OPS["flip"] = lambda x, axes: x.flip(axes)
OPS["concat"] = lambda *xs, axis: torch.cat(xs, axis)


@op("slice")
def _(x, axis, end, start=0, step=1):
    if not 0 <= start <= end <= x.shape[axis]:
        raise Wrong(1, f"slice {start}:{end} of {x.shape[axis]}")
    return x[(slice(None),) * axis + (slice(start, end, step),)]


@op("windows")
def _(x, axes, sizes, strides, dilations):
    assert dilations == [1] * len(axes)
    for a, n, s in zip(axes, sizes, strides):
        x = x.unfold(a, n, s)
    return x


@op("pad")
def _(x, low, high, value=0):
    return F.pad(x, [p for l, h in reversed(list(zip(low, high))) for p in (l, h)], value=value)


def wrap(indices, n):
    return torch.where(indices < 0, indices + n, indices).clamp(0, max(n - 1, 0)).long()


@op("gather")
def _(x, indices, axis):
    y = x.index_select(axis, wrap(indices, x.shape[axis]).reshape(-1))
    return y.reshape(x.shape[:axis] + indices.shape + x.shape[axis + 1:])


OPS["take_along"] = lambda x, indices, axis: torch.gather(x, axis, wrap(indices, x.shape[axis]))


@op("scatter")
def _(x, indices, updates, axis, mode="set"):
    i = wrap(indices, x.shape[axis])
    return x.scatter_add(axis, i, updates) if mode == "add" else x.scatter(axis, i, updates)


@op("index_put")
def _(x, indices, updates, axis, mode="set"):
    if updates.shape != x.shape[:axis] + indices.shape + x.shape[axis + 1:]:
        raise Wrong(1, f"updates {list(updates.shape)}")
    i = wrap(indices, x.shape[axis]).reshape(-1)
    u = updates.reshape(x.shape[:axis] + (i.numel(),) + x.shape[axis + 1:])
    y = x.clone()
    if mode == "add":
        return y.index_add_(axis, i, u)
    for k in range(i.numel()):
        y.select(axis, int(i[k])).copy_(u.select(axis, k))
    return y


OPS["matmul"] = torch.matmul


@op("convolution")
def _(x, w, bias=None, *, strides, padding, padding_high, dilations, groups=1, transposed=False, output_padding=()):
    assert padding == padding_high
    return torch.convolution(x, w, bias, strides, padding, dilations, transposed, list(output_padding), groups)


def padded(x, padding, padding_high, value):
    return F.pad(x, [p for l, h in reversed(list(zip(padding, padding_high))) for p in (l, h)], value=value)


def unfolded(x, kernel, strides, dilations):
    for i, (k, s, d) in enumerate(zip(kernel, strides, dilations)):
        x = x.unfold(2 + i, d * (k - 1) + 1, s)[..., ::d]
    return x.flatten(-len(kernel))


@op("max_pool")
def _(x, kernel, strides, padding, padding_high, dilations):
    return unfolded(padded(x, padding, padding_high, -math.inf), kernel, strides, dilations).amax(-1)


@op("avg_pool")
def _(x, kernel, strides, padding, padding_high, count_include_pad=True, divisor=0):
    ones = [1] * len(kernel)
    total = unfolded(padded(x.double(), padding, padding_high, 0), kernel, strides, ones).sum(-1)
    count = divisor or math.prod(kernel)
    if not divisor and not count_include_pad:
        count = unfolded(padded(torch.ones_like(x, dtype=torch.float64), padding, padding_high, 0), kernel, strides, ones).sum(-1)
    return (total / count).to(x.dtype)


@op("adaptive_avg_pool")
def _(x, output):
    return {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}[len(output)](x, output)


OPS["relu"], OPS["silu"], OPS["mish"] = F.relu, F.silu, F.mish
OPS["hardswish"], OPS["hardsigmoid"] = F.hardswish, F.hardsigmoid
OPS["leaky_relu"] = lambda x, slope=0.01: F.leaky_relu(x, slope)
OPS["elu"] = lambda x, alpha=1.0: F.elu(x, alpha)
OPS["gelu"] = lambda x, approximate="none": F.gelu(x, approximate=approximate)
OPS["softplus"] = lambda x, beta=1.0, threshold=20.0: F.softplus(x, beta, threshold)
OPS["hardtanh"] = lambda x, low=-1.0, high=1.0: F.hardtanh(x, low, high)
OPS["softmax"] = lambda x, axis: F.softmax(x, axis)
OPS["log_softmax"] = lambda x, axis: F.log_softmax(x, axis)


@op("layer_norm")
def _(x, w=None, b=None, *, axes_count, eps):
    up = lambda v: None if v is None else v.double()
    return F.layer_norm(x.double(), x.shape[x.dim() - axes_count:], up(w), up(b), eps).to(x.dtype)


@op("group_norm")
def _(x, w=None, b=None, *, groups, eps):
    up = lambda v: None if v is None else v.double()
    return F.group_norm(x.double(), groups, up(w), up(b), eps).to(x.dtype)


@op("batch_norm")
def _(x, mean, var, w=None, b=None, *, eps, axis=1):
    up = lambda v: None if v is None else v.double()
    return F.batch_norm(x.double(), up(mean), up(var), up(w), up(b), False, 0.1, eps).to(x.dtype)


@op("attention")
def _(q, k, v, mask=None, *, causal=False, scale):
    s = q.double() @ k.double().repeat_interleave(q.shape[1] // k.shape[1], 1).transpose(-1, -2) * scale
    if mask is not None:
        s = s + mask
    if causal:
        s = s.masked_fill(~torch.ones(s.shape[-2:], dtype=torch.bool).tril(), -math.inf)
    p = torch.softmax(s, -1)
    p = torch.where((s == -math.inf).all(-1, keepdim=True), 0.0, p)
    return (p @ v.double().repeat_interleave(q.shape[1] // v.shape[1], 1)).to(q.dtype)


# --- the library ------------------------------------------------------------------------------------------------------
class FakeLibrary:
    def __init__(self):
        self.objects, self.next, self.error, self.texts, self.updates = {}, itertools.count(1), b"", [], 0
        self.refuse = ()  # op names answered with "unsupported"

    def call(self, f, *args):
        try:
            with _disable_current_modes():
                f(*args)
            return 0
        except Wrong as e:
            self.error = str(e).encode()
            return e.status
        except Exception as e:
            self.error = f"{type(e).__name__}: {e}".encode()
            return 4

    def tenon_last_error(self):
        return self.error

    def tenon_graph_parse(self, text, length, out):
        def parse():
            self.texts.append(text.decode())
            graph = Graph(text[:length].decode())
            out._obj.value = number = next(self.next)
            self.objects[number] = graph
        return self.call(parse)

    def tenon_graph_release(self, handle):
        self.objects.pop(handle.value, None)

    def tenon_program_create(self, graph, options, params, count, out):
        def create():
            g = self.objects[graph.value]
            for name, head, *_ in g.nodes:
                if head in self.refuse:
                    raise Wrong(2, f"%{name}: {head} is refused")
            program = Program(g, bool(options._obj.freeze))
            program.set_params(list(params or ()))
            out._obj.value = number = next(self.next)
            self.objects[number] = program
        return self.call(create)

    def tenon_program_update_params(self, handle, params, count):
        self.updates += 1
        return self.call(lambda: self.objects[handle.value].set_params(list(params)))

    def tenon_program_run(self, handle, inputs, n_in, outputs, n_out):
        def table(p, n):
            return list((ctypes.c_void_p * n).from_address(p.value)) if n else []
        return self.call(lambda: self.objects[handle.value].run(table(inputs, n_in), table(outputs, n_out)))

    def tenon_program_explain(self, handle, json, text, length):
        data = b'{"groups": []}' if json else b"groups: none, this is an interpreter\n"
        text._obj.value, length._obj.value = data, len(data)
        return 0

    def tenon_program_get_stats(self, handle, out):
        program = self.objects[handle.value]
        out._obj.nodes, out._obj.plans, out._obj.compile_ms = len(program.graph.nodes), 1, 0.5
        return 0

    def tenon_program_release(self, handle):
        self.objects.pop(handle.value, None)


class Program:
    def __init__(self, graph, freeze):
        self.graph, self.freeze, self.frozen = graph, freeze, {}

    def set_params(self, addresses):
        if addresses and len(addresses) != len(self.graph.inputs):
            raise Wrong(1, "number of params")
        self.frozen = {}
        for address, (name, (dtype, shape), strides, param, _) in zip(addresses, self.graph.inputs):
            if address:
                if not param:
                    raise Wrong(1, f"%{name} is not a param")
                self.frozen[name] = read(address, name, dtype).clone()

    def run(self, inputs, outputs):
        g, env, values = self.graph, {}, dict(self.frozen)
        if len(inputs) != len(g.inputs) or len(outputs) != len(g.outputs):
            raise Wrong(1, "number of tensors")
        for address, (name, (dtype, shape), strides, _, symbol) in zip(inputs, g.inputs):
            if not address:
                if name not in values:
                    raise Wrong(1, f"%{name} is NULL")
                continue
            values[name] = read(address, name, dtype)
            if symbol:
                env[symbol] = int(values[name])
        for symbol, low, high in g.facts:
            if not low <= env[symbol] <= high:
                raise Wrong(1, f"{symbol} = {env[symbol]} is not in [{low}, {high}]")
        for address, (name, (dtype, shape), strides, _, _) in zip(inputs, g.inputs):
            if address:
                check(values[name], name, shape, strides, env)
        spans = [span(values[name]) for name in values if values[name].numel()]
        for name, head, operands, attrs, (dtype, shape) in g.nodes:
            f, extra = OPS[head], {k: attribute(v, env) for k, v in attrs.items()}
            if head in ("sum", "prod", "max", "min", "any", "all", "mean", "logsumexp", "var", "argmax", "argmin"):
                extra["head"] = head
            if len({values[o].dtype for o in operands}) > 1 and head not in (
                    "where", "gather", "take_along", "scatter", "index_put", "layer_norm", "group_norm", "batch_norm"):
                raise Wrong(1, f"%{name}: operands of {[values[o].dtype for o in operands]}")
            y = f(*(values[o] for o in operands), **extra)
            want = [attribute(n, env) for n in shape]
            if y.dtype != DTYPES[dtype] or list(y.shape) != want:
                raise Wrong(1, f"%{name} = {head}: {y.dtype} {list(y.shape)}, declared {dtype}{want}")
            values[name] = y
        results = []
        for address, (name, strides) in zip(outputs, g.outputs):
            y = values[name]
            to = read(address, name, {v: k for k, v in DTYPES.items()}[y.dtype])
            check(to, name, [str(n) for n in y.shape], strides, env)
            if to.numel() and any(a < span(to)[1] and span(to)[0] < b for a, b in spans):
                raise Wrong(1, f"output %{name} overlaps an input")
            results.append((to, y))
        for to, y in results:
            to.copy_(y)


def span(t):
    last = sum((n - 1) * s for n, s in zip(t.shape, t.stride()))
    return t.data_ptr(), t.data_ptr() + (last + 1) * t.element_size()


def check(t, name, shape, strides, env):
    want = [attribute(n, env) for n in shape]
    if list(t.shape) != want:
        raise Wrong(1, f"%{name}: shape {list(t.shape)}, declared {want}")
    expected = [attribute(s, env) for s in strides] if strides else None
    if expected is None:
        expected, step = [], 1
        for n in reversed(want):
            expected.insert(0, step)
            step *= n
    if t.numel() and any(n != 1 and a != b for n, a, b in zip(want, t.stride(), expected)):
        raise Wrong(1, f"%{name}: strides {list(t.stride())}, declared {expected}")


def read(address, name, dtype):
    """A torch tensor over the memory of a DLTensor."""
    t = DLTensor.from_address(address)
    if (t.code, t.bits, t.lanes) != (*CODES[dtype], 1) or (t.device_type, t.device_id, t.byte_offset) != (1, 0, 0):
        raise Wrong(1, f"%{name}: dtype {t.code, t.bits, t.lanes}, declared {dtype}")
    shape, strides = t.shape[:t.ndim], t.strides[:t.ndim]
    if math.prod(shape) == 0:
        return torch.empty_strided(shape, strides, dtype=DTYPES[dtype])
    item = t.bits // 8
    extent = (sum((n - 1) * s for n, s in zip(shape, strides)) + 1) * item
    memory = (ctypes.c_char * extent).from_address(t.data)
    array = np.ndarray(shape, BYTES[dtype], memory, 0, [s * item for s in strides])
    return torch.from_numpy(array).view(DTYPES[dtype])

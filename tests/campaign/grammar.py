"""Random programs of PyTorch: inputs, statements and outputs, printed as a Python script that needs no other file.

`generate(seed)` draws a template of a statement, fills its placeholders with variables and numbers, and keeps the statement if
eager accepts it at all three choices of sizes. So a template need not know shapes. Every fourth seed has large sizes; every fourth one
is short, takes inputs that share memory, and mostly writes to views and returns them. Placeholders: {f} a float tensor, {a} any
tensor, {i} an integer tensor, {b} a bool tensor, {m} a float tensor that broadcasts with {f}, {d} {e} dimensions of the first
tensor, {n} a number, {c} a small positive float, {k} a small positive integer, {s} a slice, {t} a dtype, {w} {v} weights.
Tested by tests/campaign/campaign_test.py.
"""

import random
import re
from dataclasses import dataclass, field

import torch

SIZES = [{"B": 2, "N": 7, "M": 12, "K": 5}, {"B": 3, "N": 13, "M": 6, "K": 9}, {"B": 5, "N": 33, "M": 17, "K": 2}]
LARGE = [{"B": 2, "N": 181, "M": 300, "K": 70}, {"B": 3, "N": 130, "M": 257, "K": 64}, {"B": 4, "N": 96, "M": 515, "K": 33}]
SHAPES = ["", "M", "N", "B, N", "N, M", "B, N, M", "B, N, M", "N, 1", "1, M", "B, 1, M", "B, 3, N, M", "B, 2, N, 8", "K", "N, K",
          "M, K", "B, K", "B, 4, 8, 8", "B, N, 1", "1", "4, 6", "B, 64"]

UNARY = """abs neg exp sin cos tanh sigmoid relu sqrt rsqrt log log1p expm1 floor ceil round trunc sign reciprocal square erf
atan asinh tan sinh cosh frac exp2 log2 log10 erfc lgamma digamma acos asin isnan isinf isfinite logical_not sgn deg2rad positive
clone contiguous signbit""".split()
ACTIVATIONS = """gelu silu elu selu celu softplus mish hardtanh hardswish hardsigmoid leaky_relu relu6 logsigmoid softsign
tanhshrink hardshrink softshrink""".split()
BINARY = """add sub mul div maximum minimum atan2 fmod remainder pow eq ne lt le gt ge logical_and logical_or logical_xor fmax fmin
copysign hypot true_divide floor_divide xlogy logaddexp nextafter heaviside""".split()

# (weight, template)
VIEWS = [
    (3, "{a}.transpose({d}, {e})"), (2, "{a}.permute({PERM})"), (2, "{a}.unsqueeze({d})"), (1, "{a}.squeeze({d})"), (1, "{a}.squeeze()"),
    (2, "{a}.reshape(-1)"), (2, "{a}.reshape({a0}.shape[0], -1)"), (1, "{a}.flatten({d}, {e})"), (1, "{a}.view(-1, {a0}.shape[-1])"), (1, "{a}.unflatten({d}, (-1, {k}))"),
    (3, "{a}.flip({d})"), (1, "{a}.flip({d}, {e})"), (5, "{a}[{s}]"), (3, "{a}[:, {s}]"), (3, "{a}[..., {s}]"), (2, "{a}[..., {z}]"), (2, "{a}[{z}]"),
    (1, "{a}[None]"), (1, "{a}[..., None, {s}]"), (2, "{a}.narrow({d}, {Z}, {k})"), (2, "{a}.select({d}, {z})"), (1, "{a}.diagonal()"), (1, "{a}.diagonal({z}, {d}, {e})"),
    (1, "{a}.unfold({d}, {k}, {k})"), (2, "{a}.expand({k}, *{a0}.shape)"), (1, "{a}.expand_as({a})"), (1, "{a}.chunk(2, {d})[{Z}]"), (1, "{a}.split({k}, {d})[{z}]"),
    (1, "{a}.tensor_split({k}, {d})[{z}]"), (1, "{a}.movedim({d}, {e})"), (1, "{a}.mT"), (1, "{a}.T"), (1, "{a}.unbind({d})[{z}]"), (1, "{a}.t()"),
    (1, "{a}.swapaxes({d}, {e}).contiguous()"), (1, "torch.broadcast_to({a}, ({k}, *{a0}.shape))"), (1, "{f}.as_strided((2, 3), (1, 2))"), (1, "{a}.view_as({a})"),
]
EXPRESSIONS = [
    (12, "{f}.{UN}()"), (3, "{a}.{UN}()"), (5, "F.{ACT}({f})"), (2, "F.gelu({f}, approximate='tanh')"),
    (10, "torch.{BIN}({f}, {m})"), (3, "torch.{BIN}({a}, {a})"), (6, "{f} {OP} {m}"), (4, "{f} {OP} {n}"), (3, "{n} {OP} {f}"),
    (3, "{a} {OP} {a}"), (2, "{i} {IOP} {n}"), (2, "{i} {IOP} {i}"), (2, "torch.div({a}, {n}, rounding_mode='{ROUND}')"),
    (2, "torch.add({f}, {m}, alpha={n})"), (1, "torch.sub({i}, {i}, alpha={k})"), (1, "torch.rsub({f}, {n})"),
    (2, "torch.lerp({f}, {m}, {c})"), (2, "torch.addcmul({f}, {m}, {m}, value={n})"), (1, "torch.addcdiv({f}, {m}, {m}.abs() + 1.5, value={n})"),
    (3, "{f}.clamp({n}, {n})"), (1, "{a}.clamp(min={n})"), (1, "{i}.clamp(max={k})"), (1, "torch.clamp({f}, min={m})"),
    (3, "torch.where({b}, {f}, {m})"), (2, "torch.where({f} > {n}, {f}, {n})"), (1, "torch.where({b}, {n}, {i})"),
    (3, "{f}.masked_fill({b}, {n})"), (2, "{f}.masked_fill({f} > {m}, {INF})"), (1, "{i}.masked_fill({b}, {k})"),
    (1, "{f}.nan_to_num({n})"), (2, "{f} {CMP} {m}"), (2, "{a} {CMP} {n}"), (1, "{b} {BOP} {b}"), (1, "~{b}"), (1, "-{a}"), (1, "~{i}"),
    (3, "{a}.to({t})"), (1, "{f}.type_as({a})"), (1, "{a}.bool()"), (1, "({f} * 3).to(torch.int64)"), (1, "{f}.isclose({m})"),
    # reductions
    (4, "{f}.{RED}({d})"), (3, "{f}.{RED}({d}, keepdim=True)"), (1, "{f}.sum()"), (1, "{f}.mean()"), (2, "{f}.sum(({d}, {e}))"),
    (1, "{f}.mean(({d}, {e}), keepdim=True)"), (1, "{a}.sum({d})"), (1, "{i}.{RED}({d})"), (1, "{b}.any({d})"), (1, "{b}.all()"),
    (2, "{f}.var({d}, unbiased={BOOL})"), (1, "{f}.std({d}, keepdim=True)"), (1, "{f}.amax(({d}, {e}))"), (1, "{f}.max({d})[{Z}]"),
    (1, "{f}.min({d}, keepdim=True)[{Z}]"), (2, "{f}.argmax({d})"), (1, "{f}.argmin({d}, keepdim=True)"), (1, "{f}.norm(dim={d})"),
    (1, "{f}.norm(p={k}, dim={d})"), (1, "{f}.logsumexp({d})"), (1, "torch.var_mean({f}, {d})[{Z}]"), (1, "{f}.sum({d}, dtype=torch.float64)"),
    (1, "torch.aminmax({f}, dim={d})[{Z}]"), (1, "{b}.count_nonzero({d})"), (1, "{f}.prod({d})"),
    # scans and sorts
    (3, "{f}.cumsum({d})"), (1, "{i}.cumsum({d})"), (1, "{f}.tanh().cumprod({d})"), (1, "{f}.cummax({d})[{Z}]"), (1, "{b}.cumsum({d})"),
    (1, "{f}.sort({d}, stable=True)[0]"), (1, "{f}.topk(2, {d})[0]"), (1, "{f}.logcumsumexp({d})"), (1, "{f}.diff(dim={d})"),
    # norms
    (3, "{f}.softmax({d})"), (2, "F.log_softmax({f}, {d})"), (2, "F.layer_norm({f}, {f}.shape[-1:])"), (1, "F.softmin({f}, {d})"),
    (1, "F.layer_norm({f}, {f}.shape[-2:])"), (1, "F.rms_norm({f}, {f}.shape[-1:])"), (1, "F.normalize({f}, dim={d})"),
    (1, "F.group_norm({f}, 1)"), (1, "F.group_norm({f4}, 2)"), (1, "F.instance_norm({f})"), (1, "F.glu({f}, {d})"), (1, "F.cosine_similarity({f}, {m}, dim={d})"),
    # contractions
    (4, "torch.matmul({f}, {m}.transpose(-1, -2))"), (3, "torch.matmul({f}, {f})"), (2, "{f2} @ {f2}.t()"), (2, "torch.matmul({f}.transpose(-1, -2), {m})"),
    (3, "F.linear({f}, {w})"), (2, "F.linear({f}, {w}, {v})"), (1, "torch.einsum('...ij,...kj->...ik', {f}, {m})"),
    (1, "torch.einsum('bij,bkj->bik', {f3}, {f3})"), (1, "torch.bmm({f3}, {f3}.transpose(1, 2))"), (1, "torch.baddbmm({f3}, {f3}, {f3}, beta={n}, alpha={n})"),
    (1, "torch.addmm({f}, {f2}, {f2}.t(), beta={n}, alpha={n})"), (1, "torch.outer({f1}, {f1})"), (1, "torch.mv({f2}, {f1})"), (1, "torch.dot({f1}, {f1})"),
    (2, "F.scaled_dot_product_attention({f4}, {f4}, {f4})"), (1, "F.scaled_dot_product_attention({f3}, {f3}, {f3}, is_causal=True)"),
    (1, "F.conv2d({f4}, {c4}, padding={P})"), (1, "F.conv2d({f4}, {c4}, stride=2, padding=1)"), (1, "F.conv1d({f3}, {c3}, padding=1)"),
    (1, "F.conv2d({f4}, {g4}, groups={f4}.shape[1], padding=1)"), (1, "F.conv_transpose2d({f4}, {u4}, stride=2)"),
    (1, "F.max_pool2d({f4}, {k}, {k})"), (1, "F.avg_pool2d({f4}, 3, 2, padding=1, count_include_pad={BOOL})"), (1, "F.max_pool2d({f4}, 3, 2, 1, ceil_mode=True)"),
    (1, "F.adaptive_avg_pool2d({f4}, {k})"), (1, "F.avg_pool1d({f3}, {k})"), (1, "F.max_pool1d({f3}, 2, padding=1)"), (1, "F.interpolate({f4}, scale_factor=2, mode='{IM}')"),
    (1, "F.pixel_shuffle({f4}, 2)"), (1, "F.unfold({f4}, 2)"), (1, "torch.cdist({f2}, {f2})"),
    *VIEWS,
    # copies
    (3, "torch.cat([{f}, {m}], {d})"), (1, "torch.cat([{a}, {a}, {a0}], {d})"), (2, "torch.stack([{f}, {f0}], {d})"), (1, "torch.stack([{a}, {a}])"),
    (2, "{a}.roll({z}, {d})"), (1, "{a}.roll(({z}, {z}), ({d}, {e}))"), (1, "{a}.repeat({k}, *[1] * {a0}.dim())"), (1, "{a}.repeat_interleave({k}, {d})"),
    (2, "F.pad({f}, ({p}, {p}))"), (1, "F.pad({f}, ({p}, {p}, {p}, {p}), value={n})"), (1, "F.pad({f}, (1, 2), mode='{PAD}')"), (1, "{a}.tile({k})"),
    (1, "{f}.tril({z})"), (1, "{f}.triu({z})"), (1, "torch.diag_embed({f})"), (1, "{a}.rot90(1, ({d}, {e}))"), (1, "torch.tril({a}, {z})"), (1, "torch.block_diag({f2}, {f2})"),
    # indices
    (3, "{a}[{x0}]"), (2, "{a}.index_select({d}, {xd})"), (2, "torch.gather({f}, {d}, {f0}.argsort({d}, stable=True))"), (2, "torch.take_along_dim({f}, {xk}, {d})"),
    (2, "F.embedding({xw}, {w})"), (1, "{a}[:, {x1}]"), (1, "{a}[{x0}, {x1}]"), (1, "{a}[..., {xl}]"), (1, "torch.index_add({f}, {d}, {xn}, {f0})"),
    (1, "{f}.scatter({d}, {xk}, {n})"), (1, "{f}.scatter_add({d}, {xk}, {f0})"), (1, "{f}.index_fill({d}, {xd}, {n})"), (1, "torch.take({a}, {xt})"),
    (1, "F.one_hot({xk}, {a0}.shape[{d}])"), (1, "{f}.scatter_reduce({d}, {xk}, {f0}, '{SR}')"), (1, "{f}.index_copy({d}, {xn}, {f0}.flip({d}))"),
    # numbers and shapes
    (1, "torch.arange({a}.shape[{d}])"), (1, "torch.full_like({f}, {n})"), (1, "torch.zeros_like({a})"), (1, "{f}.new_ones({k}, {f0}.shape[-1])"),
    (1, "{f} * {f0}.shape[{d}]"), (1, "{f} / {f0}.numel()"), (1, "{f}.sum({d}) / {f0}.size({d})"), (1, "{f} + torch.arange({f0}.shape[-1])"), (1, "torch.linspace({n}, {n}, {a}.shape[{d}])"),
    (1, "torch.ones_like({b}).tril()"), (1, "{f} * torch.tensor({n})"), (1, "torch.eye({a}.shape[-1])"), (1, "torch.arange({k}, {a}.shape[{d}] + {k}, 2)"), (1, "torch.bucketize({f}, torch.linspace(-1, 1, 5))"),
    (1, "{i} // {k}"), (1, "{i} % {k}"), (1, "{i} << 2"), (1, "{i} >> 1"), (1, "{f} ** {k}"), (1, "{f}.abs() ** {c}"), (1, "{n} ** {f}"), (1, "torch.polar({f}.abs(), {f0}).real"),
]
STATEMENTS = [
    (3, "{f}.{INUN}_()"), (4, "{f}.add_({m})"), (3, "{f}.mul_({n})"), (2, "{f}.mul_({m})"), (1, "{i}.add_({k})"), (2, "{a}.zero_()"), (2, "{a}.fill_({n})"),
    (2, "{f}.copy_({m})"), (1, "{a}.copy_({a})"), (3, "{f}[{s}] = {n}"), (2, "{f}[..., {s}] = {m}[..., {s0}]"), (2, "{f}[{s}].mul_({n})"), (2, "{f}[..., {s}].add_({n})"),
    (2, "{f}[{z}] = {n}"), (2, "{f}[..., {z}] = {n}"), (1, "{f}[..., {z}].copy_({f0}[..., {z}])"), (2, "{f}.index_put_(({x0},), {f0}[{z}], accumulate=True)"), (1, "{f}[{b}] = {n}"), (2, "{f}.masked_fill_({b}, {n})"),
    (1, "{f}.clamp_({n}, {n})"), (1, "{f}.t().add_({n})"), (1, "{f}.transpose({d}, {e}).mul_({n})"), (1, "{f}.flatten()[{s}] = {n}"), (1, "{f}.view(-1)[{s}] = {n}"), (1, "{f}.diagonal().fill_({n})"),
    (1, "{f}.index_add_({d}, {xn}, {f0}.clone())"), (1, "{f}.scatter_({d}, {xk}, {n})"), (1, "{f}.index_fill_({d}, {xd}, {n})"), (1, "{f}.narrow({d}, {Z}, {k}).{INUN}_()"), (1, "{f} {AUG} {m}"), (1, "{f} {AUG} {n}"),
    (1, "{f}[{s}] {AUG} {n}"), (1, "{f}.select({d}, {z}).sub_({n})"), (1, "{f}.addcmul_({m}, {m}, value={n})"), (1, "{f}.index_copy_({d}, {xn}, {f0}.flip({d}))"), (1, "{f}.cumsum_({d})"), (1, "{f}[{x0}] = {n}"),
    (1, "{f}[{x0}] = {f0}[{x0}] * {c}"), (1, "{f}.unsqueeze(0).add_({f0})"), (1, "{f}.expand(2, *{f0}.shape)[0].mul_({c})"), (1, "{f}.chunk(2, {d})[{Z}].neg_()"), (1, "{f}.tril_()"), (1, "{a}.squeeze_()"), (1, "{a}.transpose_({d}, {e})"),
]
WORDS = {
    "UN": UNARY, "ACT": ACTIVATIONS, "BIN": BINARY, "OP": ["+", "-", "*", "/", "+", "*"], "IOP": ["+", "-", "*", "//", "%", "&", "|", "^"],
    "CMP": ["<", "<=", ">", ">=", "==", "!="], "BOP": ["&", "|", "^"], "RED": ["sum", "mean", "amax", "amin", "sum", "mean"], "BOOL": ["True", "False"],
    "ROUND": ["floor", "trunc"], "INF": ["float('inf')", "float('-inf')", "float('nan')", "-1e9"], "IM": ["nearest", "bilinear"], "PAD": ["reflect", "replicate", "circular"],
    "INUN": ["relu", "sigmoid", "tanh", "neg", "abs", "sin", "exp", "floor", "square", "sqrt"], "AUG": ["+=", "*=", "-=", "/="], "Z": ["0", "1"], "P": ["0", "1"],
    "z": ["0", "1", "-1", "-2"], "k": ["1", "2", "3", "2"], "c": ["0.5", "0.25", "1.7", "0.9"], "p": ["0", "1", "2", "-1"], "SR": ["sum", "amax", "amin", "mean", "prod"],
    "n": ["2", "-1", "3", "0", "1", "-3", "0.5", "-1.25", "2.0", "1e-3", "True", "7", "-0.75", "100", "0.1"],
    "s": ["1:", ":-1", "-3:", "::2", "1::2", "-2:-1", ":2", "1:3", "-4::3", ":", "2:5", "-1:", ":-2:2"],
    "t": ["torch.float32", "torch.float64", "torch.bfloat16", "torch.float16", "torch.int64", "torch.int32", "torch.bool", "torch.uint8", "torch.int8"],
}
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
LIMIT = 40000       # elements of a value; of a large program 40 times as many


@dataclass
class Input:
    name: str
    lines: list             # Python that makes it, of B, N, M, K


@dataclass
class Program:
    seed: int
    inputs: list = field(default_factory=list)
    statements: list = field(default_factory=list)      # (name or None, text)
    outputs: list = field(default_factory=list)
    dynamic: object = None
    writes: bool = False    # most statements make views and write to them
    large: bool = False     # its sizes are LARGE: reductions run in parts, and products of few rows have a back end of their own

    def body(self):
        lines = [f"{name} = {text}" if name else text for name, text in self.statements]
        return [*lines, f"return {', '.join(self.outputs)}{',' if len(self.outputs) == 1 else ''}"]

    def source(self):
        names = ", ".join(i.name for i in self.inputs)
        text = ["import torch", "import torch.nn.functional as F", "", f"SIZES = {LARGE if self.large else SIZES}", f"DYNAMIC = {self.dynamic}", "", "", "def inputs(s):",
                f"    torch.manual_seed({self.seed} + s)", "    B, N, M, K = SIZES[s].values()"]
        for i in self.inputs:
            text += ["    " + line for line in i.lines]
        text += [f"    return [{names}]", "", "", f"def f({names}):", *("    " + line for line in self.body())]
        return "\n".join(text) + "\n"

    def script(self):
        """The source, followed by a comparison with eager."""
        return self.source() + '''

if __name__ == "__main__":
    compiled = torch.compile(f, backend="tenon", dynamic=DYNAMIC, fullgraph=True)
    with torch.no_grad():
        for s in range(1 if DYNAMIC is False else 3):
            mine, theirs = inputs(s), inputs(s)
            for x, y in zip([*compiled(*mine), *mine], [*f(*theirs), *theirs]):
                torch.testing.assert_close(x, y, equal_nan=True, check_stride=True)
'''


def load(source):
    """The module's namespace: inputs(s) and f."""
    space = {}
    exec(compile(source, "<program>", "exec"), space)
    return space


def draw_input(r, name, base):
    """Values of a random shape, dtype and layout."""
    shape = r.choice(SHAPES)
    if r.random() < 0.12:
        what = r.choice(["torch.int64", "torch.int32", "torch.bool", "torch.uint8"])
        low, high = {"torch.bool": (0, 2), "torch.uint8": (0, 256)}.get(what, (-9, 10))
        def make(shape):
            return f"torch.randint({low}, {high}, ({shape + ',' if shape else ''})).to({what})"
    else:
        what = base if r.random() < 0.85 else r.choice(["torch.float32", "torch.float64", "torch.bfloat16", "torch.float16"])
        def make(shape):
            return f"torch.randn({shape + ',' if False else (shape if shape else '()')}).to({what})"
    dims = [d.strip() for d in shape.split(",")] if shape else []
    layout = r.choices(["plain", "transposed", "offset", "step", "expanded", "misaligned"], [10, 2, 2, 2, 1, 1])[0]
    if layout == "transposed" and len(dims) >= 2:
        line = f"{name} = {make(', '.join(reversed(dims)))}.permute({', '.join(str(d) for d in reversed(range(len(dims))))})"
    elif layout == "offset" and dims:
        line = f"{name} = {make(', '.join(d + ' + 3' for d in dims))}[{', '.join(f'1:{d} + 1' for d in dims)}]"
    elif layout == "step" and dims:
        line = f"{name} = {make(', '.join([*dims[:-1], '2 * ' + dims[-1]]))}[..., ::2]"
    elif layout == "expanded" and dims:
        line = f"{name} = {make(', '.join(['1', *dims[1:]]))}.expand({', '.join(dims)})"
    elif layout == "misaligned" and dims:
        line = f"{name} = {make(' * '.join(dims) + ' + 1')}[1:].view({', '.join(dims)})"
    else:
        line = f"{name} = {make(', '.join(dims))}"
    lines = [line]
    if r.random() < 0.12 and "randn" in line:
        lines = [line + ".clone()" if layout == "expanded" else line, f"{name}.view(-1)[::5] = {r.choice(WORDS['INF'])}" if layout == "plain" and dims
                 else f"{name} = {name}.clone()"]
    return Input(name, lines)


class Generator:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.program = Program(seed, writes=seed % 4 == 1, large=seed % 4 == 3)
        self.limit = LIMIT * (40 if self.program.large else 1)
        self.values = []        # per choice of sizes: name -> tensor
        self.fresh = 0

    def start(self):
        r = self.r
        base = r.choices(["torch.float32", "torch.float64", "torch.bfloat16", "torch.float16"], [6, 1, 2, 1])[0]
        self.program.dynamic = r.choice([True, True, None, None, False])
        self.program.inputs = [draw_input(r, f"x{i}", base) for i in range(r.randint(2, 4))]
        if r.random() < (0.6 if self.program.writes else 0.2):        # two views of one storage, or one tensor twice
            first = self.program.inputs[0].name
            views = [f"torch.atleast_1d({first}){view}" for view in ("[..., 1:]", ".flatten()[::2]", "[:-1]", ".transpose(0, -1)")]
            self.program.inputs.append(Input("y0", [f"y0 = {r.choice([*views, first] if self.program.writes else views)}"]))
        self.replay()

    def replay(self):
        """Computes all values again, from the inputs on."""
        self.values = []
        space = load(self.program.source())
        with torch.no_grad():
            for s in range(3):
                env = {"torch": torch, "F": torch.nn.functional}
                env.update(zip((i.name for i in self.program.inputs), space["inputs"](s)))
                for name, text in self.program.statements:
                    exec(f"{name} = {text}" if name else text, env)
                self.values.append(env)

    def tensors(self, want=lambda t: True):
        return [n for n, t in self.values[0].items() if isinstance(t, torch.Tensor) and want(t)]

    def pick(self, names):
        """Draws a value; later values are more likely."""
        if not names:
            raise LookupError
        return names[min(int(self.r.triangular(0, len(names), len(names))), len(names) - 1)]

    def fill(self, template):
        """The template with its placeholders filled. Raises LookupError if no value fits."""
        r, state = self.r, {}

        def floats(rank=None):
            return self.tensors(lambda t: t.is_floating_point() and (rank is None or t.dim() == rank))

        def place(match):
            word = match.group(1)
            first = state.get("first")
            t = self.values[0][first] if first else None
            if word in WORDS:
                return r.choice(WORDS[word])
            if word in ("f", "a", "i", "b") or re.fullmatch(r"f[1-4]", word):
                if word[0] == "f":
                    names = floats(int(word[1:]) if word[1:] else None)
                elif word == "i":
                    names = self.tensors(lambda t: not t.is_floating_point() and not t.is_complex() and t.dtype != torch.bool)
                elif word == "b":
                    names = self.tensors(lambda t: t.dtype == torch.bool)
                    if first and names:
                        names = [n for n in names if self.values[0][n].shape == t.shape] or names
                else:
                    names = self.tensors()
                if word in ("f3", "f4") and first:
                    names = [n for n in names if self.values[0][n].shape == t.shape] or names
                name = self.pick(names)
                state.setdefault("first", name)
                return name
            if word in ("f0", "a0"):
                return first
            if word == "s0":
                return state["slice"]
            if word == "m":
                same = self.tensors(lambda u: u.is_floating_point() and u.shape == t.shape)
                near = self.tensors(lambda u: u.is_floating_point() and fits(u.shape, t.shape))
                return self.pick(same if r.random() < 0.5 else near or same)
            if word in ("d", "e"):
                rank = max(t.dim(), 1)
                dims = [d for d in range(rank) if state.get("d") is None or d != state["d"] % rank] or [0]
                d = r.choice(dims)
                d = d - rank if r.random() < 0.5 else d
                if word == "d" and state.get("d") is None:
                    state["d"] = d
                return str(state["d"] if word == "d" else d)
            if word == "PERM":
                order = list(range(t.dim()))
                r.shuffle(order)
                return ", ".join(map(str, order)) or "()"
            n = r.choice([1, 3, 5])
            if word == "w":
                state["weight"] = True
                return self.constant(f"{n}, {first}.shape[-1]" if "linear" in template else f"11, {n + 2}", first, n)
            if word == "v":
                return self.constant(str(state.get("rows", 1)), first)
            if word == "xw":
                return f"({self.pick(self.tensors(lambda u: u.dtype in (torch.int64, torch.int32)))} % 11)"
            if word in ("c4", "g4", "u4", "c3"):
                c = t.shape[1]
                sizes = {"c4": f"{n}, {c}, 3, 3", "g4": f"{c}, 1, 3, 3", "u4": f"{c}, {n}, 2, 2", "c3": f"{n}, {c}, 3"}[word]
                return self.constant(sizes, first)
            if word[0] == "x":      # indices in range, negative ones too where eager takes them
                d = {"0": "0", "1": "1", "l": "-1"}.get(word[1], str(state.get("d", 0)))
                if word == "xk":
                    return f"({first}.argsort({d}, stable=True) {r.choice(['', '// 2'])})"
                if word == "xn":
                    return f"torch.arange({first}.shape[{d}]).flip(0)"
                if word == "xt":
                    return f"torch.arange(0, {first}.numel(), 3)"
                ints = self.tensors(lambda u: u.dtype in (torch.int64, torch.int32) and u.dim() <= 2)
                if ints and r.random() < 0.6 and word != "xd":
                    return f"({self.pick(ints)} % {first}.shape[{d}])"
                return f"torch.tensor([{r.choice(['0, 1, -1', '1', '-1, 0, 0, 1'] if word != 'xd' else ['0, 1, 0', '1'])}])"
            raise KeyError(word)

        def fits(a, b):
            try:
                torch.broadcast_shapes(a, b)
            except RuntimeError:
                return False
            return True

        return re.sub(r"\{(\w+)\}", place, template)

    def constant(self, shape, first, rows=None):
        """A weight made inside the program without random numbers."""
        return f"((torch.arange({' * '.join('(' + d.strip() + ')' for d in shape.split(','))}) % 7 - 3) / 5).to({first}.dtype).reshape({shape})"

    def attempt(self, text, define):
        """Runs one statement at all sizes; True when it is kept."""
        results = []
        with torch.no_grad():
            for env in self.values:
                if define:
                    out = eval(text, env)
                    if not isinstance(out, torch.Tensor) or out.numel() > self.limit or out.dim() > 6 or out.layout != torch.strided or out.is_complex():
                        return False
                    results.append(out)
                else:
                    exec(text, env)
        if define:
            if len({(t.dtype, t.dim()) for t in results}) > 1:
                return False
            t = results[0]
            if t.numel() == 0 and self.r.random() < 0.9:
                return False
            if t.is_floating_point() and t.numel() and not sound(t, self.r):
                return False
            self.fresh += 1
            name = f"v{self.fresh}"
            for env, out in zip(self.values, results):
                env[name] = out
            self.program.statements.append((name, text))
            return True
        for env in self.values:
            if any(isinstance(t, torch.Tensor) and (t.numel() > self.limit or not sound(t, None)) for t in env.values()):
                return False
        self.program.statements.append((None, text))
        return True

    def run(self):
        self.start()
        r = self.r
        writes = self.program.writes
        length, tries = r.randint(2, 10) if writes else r.randint(5, r.choice([10, 20, 40])), 0
        mutating = r.random() < 0.5
        while len(self.program.statements) < length and tries < 20 * length:
            tries += 1
            define = r.random() < 0.6 if writes else not (mutating and r.random() < 0.2)
            table = STATEMENTS if not define else VIEWS if writes and r.random() < 0.6 else EXPRESSIONS
            template = r.choices([t for _, t in table], [w for w, _ in table])[0]
            try:
                text = self.fill(template)
            except (LookupError, AttributeError):
                continue
            try:
                kept = self.attempt(text, define)
            except Exception:
                kept = False
            if not kept and not define:
                self.replay()
        inputs, named = [i.name for i in self.program.inputs], [n for n, _ in self.program.statements if n]
        used = " ".join(text for _, text in self.program.statements)
        loose = [n for n in named if not re.search(rf"\b{n}\b", used)]
        named = inputs + named if writes else named or inputs
        self.program.outputs = (loose + r.sample(named, min(len(named), 2)))[:8]
        return self.program


def sound(t, r):
    """Whether no value is so large that others have no effect. NaN and inf are allowed now and then."""
    if not isinstance(t, torch.Tensor) or not t.is_floating_point() or t.numel() == 0:
        return True
    finite = t[t.isfinite()].double()
    if finite.numel() and finite.abs().max() > 1e4:
        return False
    if r is None:
        return True
    odd = 1 - finite.numel() / t.numel()
    return odd == 0 or (odd < 0.5 and r.random() < 0.3)


def generate(seed):
    return Generator(seed).run()

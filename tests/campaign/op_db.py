"""Campaign `op_db`: PyTorch's own table of operators (702 entries) with its own sample inputs. Without gradients; or with --backward,
the differentiable ones and PyTorch's table of modules, and the gradients of random tangents are compared too.

Runs every entry and dtype. Sizes are static; symbols once they change (auto); symbols from the first call (dynamic), also with the
call's numbers as arguments; or symbols about which the tracer knows nothing, not even that they are neither 0 nor 1 (unbacked).
Inputs are as given, of other sizes, transposed, expanded, sliced out of a larger tensor, misaligned and empty. If sizes are
symbols, samples that differ only in sizes run through one compiled function.

Each entry gets one class, the worst of its cases: native (no node in PyTorch), pytorch (nodes in PyTorch, results right), not
traceable, wrong, raised, crash, timeout. op_db_expected.txt has the classes of a run with --ci. Such a run fails when a class
changes, for better or worse; `--bless` rewrites the file. With --backward the file is backward_expected.txt, and an entry is
native if no node of the forward and the backward graph runs in PyTorch.

With --wide the run has every dtype and six layouts, and each entry gets a class per dtype, the worst of its layouts. wide_expected.txt
has only what differs from the class that the entry has with --ci. There an entry that --ci lacks counts as native, and complex numbers
count as pytorch instead of native. With --backward --wide the file is wide_backward_expected.txt.
"""

import collections
import warnings

import torch
import torch._dynamo

from . import backward, oracle, trial
from .pool import ROOT

LIMIT = 60
DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16, "i64": torch.int64,
          "i32": torch.int32, "u8": torch.uint8, "bool": torch.bool, "i16": torch.int16, "i8": torch.int8, "c64": torch.complex64}
LAYOUTS = ("given", "longer", "doubled", "single", "transposed", "expanded", "offset", "misaligned", "empty")
MODES = {"static": False, "auto": None, "dynamic": True, "numbers": True, "unbacked": True}
EXPECTED = ROOT / "tests" / "campaign"
WORST = ("native", "pytorch", "random", "illegal", "not traceable", "pytorch wrong", "unstable", "reference", "wrong", "raised", "timeout", "crash", "tool")
# Their results are uninitialized memory.
UNINITIALIZED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "torch.ops.aten._empty_affine_quantized")
# If elements are equal, PyTorch's documentation does not specify the index that these return. Name -> position of `dim` in the arguments.
OF_EQUALS = {"argsort": 0, "kthvalue": 1, "median": 0, "mode": 0, "nanmedian": 0, "sort": 0, "topk": 1}
# Eager reads beyond the memory of an expanded axis.
OVERREADING = ("median", "nanmedian", "masked.median", "native_group_norm")
# With no elements, eager's backward pass divides by zero or reads memory that it does not own, and ends the process.
CRASHING = ("_native_batch_norm_legit", "native_batch_norm", "nn.functional.pdist")
CI = {"dtypes": "f32", "layouts": "given", "modes": "static", "samples": 1}
WIDE = {"dtypes": ",".join(DTYPES), "layouts": "given,transposed,expanded,offset,misaligned,empty", "modes": "static", "samples": 2}
FULL = {"dtypes": ",".join(DTYPES), "layouts": ",".join(LAYOUTS), "modes": ",".join(MODES), "samples": 8}


def add_arguments(parser):
    parser.add_argument("--backward", action="store_true", help="gradients too, of operators and of modules")
    parser.add_argument("--only", help="comma-separated entries (name, or name.variant), or substrings with a trailing *")
    parser.add_argument("--dtypes", help=f"of {FULL['dtypes']}")
    parser.add_argument("--layouts", help=f"of {FULL['layouts']}")
    parser.add_argument("--modes", help=f"of {FULL['modes']}")
    parser.add_argument("--samples", type=int, help="samples per entry, dtype and layout, spread over all (default 8; with --ci 1)")
    parser.add_argument("--sample", type=int, help="this sample only")
    parser.add_argument("--stride", type=int, default=1, help="every n-th entry only")
    parser.add_argument("--first", type=int, default=0, help="the first entry of those")
    parser.add_argument("--wide", action="store_true", help="--ci of every dtype and of six layouts, each with samples of its own")
    parser.add_argument("--bless", action="store_true", help="with --ci or --wide: rewrite the expected classes")


def entries(gradients=False):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal import common_methods_invocations as table
    # Random entries would set the seed inside the call, which no tracer supports; trial.py sets it before the call.
    table.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    found = {op.name + ("." + op.variant_test_name if op.variant_test_name else ""): op for op in table.op_db}
    return {name: op for name, op in found.items() if op.supports_autograd} | backward.modules() if gradients else found


def settle(options):
    options["ci"] = options["ci"] or options["wide"]
    for key, value in (WIDE if options["wide"] else CI if options["ci"] else FULL).items():
        if options[key] is None:
            options[key] = value


def jobs(options):
    settle(options)
    if options["bless"] and not whole(options):
        raise SystemExit("--bless needs a whole run")
    names = sorted(entries(options["backward"]))
    if options["only"]:
        wanted = options["only"].split(",")
        names = [n for n in names if any(n == w or (w.endswith("*") and w[:-1] in n) for w in wanted)]
    return [{"key": name} for name in names[options["first"]::options["stride"]]]


TABLE = None


def cases(job, options):
    global TABLE
    TABLE = TABLE or entries(options["backward"])
    op = TABLE[job["key"]]
    torch._dynamo.config.recompile_limit = 64
    for dtype_name in options["dtypes"].split(","):
        if DTYPES[dtype_name] not in (op.supported_backward_dtypes("cpu") if options["backward"] else op.supported_dtypes("cpu")):
            continue
        for mode in options["modes"].split(","):
            torch._dynamo.reset()
            yield from cases_of(op, job["key"], dtype_name, mode, options["layouts"].split(","), options)


def samples_of(op, dtype, gradients):
    torch.manual_seed(0)
    try:
        return list(op.sample_inputs("cpu", dtype, requires_grad=gradients))
    except Exception:
        return []


def spread(n, count):
    """Indices of `count` of n samples, the first and the last among them."""
    if count >= n:
        return list(range(n))
    return sorted({round(i * (n - 1) / max(count - 1, 1)) for i in range(count)})


def turn(items, begin, count):
    """Returns `count` items from position `begin` on. The first follows the last, and each comes once."""
    return list(dict.fromkeys(items[i % len(items)] for i in range(begin, begin + count))) if items else []


def cases_of(op, key, dtype_name, mode, layouts, options):
    """The cases of one compiled function and more: all static samples go through one first, and one by one if it is not right."""
    samples = samples_of(op, DTYPES[dtype_name], options["backward"])
    count = options["samples"]
    chosen = [options["sample"]] if options["sample"] is not None else spread(len(samples), count * (len(layouts) if options["wide"] else 1))
    pairs = [(index, layout) for n, layout in enumerate(layouts) for index in (
        turn(chosen, n * count, count) if options["wide"] else chosen) if index < len(samples)]
    family, known = {}, {}         # structure -> compiled function, where sizes are symbols; (sample, layout) -> record of the bundle

    def about(what, index, layout):
        chosen = f"--layouts {layout} --sample {index}" if layout else f"--layouts {','.join(layouts)} --samples {options['samples']}"
        return {"id": f"{key} {dtype_name} {mode} {what}", "entry": key, "dtype": dtype_name, "mode": mode, "layout": layout,
                "repro": f"./dev campaign op_db {'--backward ' * options['backward']}--only {key} --dtypes {dtype_name} --modes {mode} {chosen}"}

    if mode == "static" and len(pairs) > 1 and op.name not in UNINITIALIZED:
        yield about("bundle", None, None), lambda: bundle(op, samples, pairs, options, known)
    for index, layout in pairs:
        yield about(f"{layout} {index}", index, layout), lambda index=index, layout=layout: (
            known.get((index, layout)) or run(op, samples[index], layout, mode, options, family))


def bundle(op, samples, pairs, options, known):
    """Runs many samples in one function, which costs one compilation. Samples that are not right there run alone afterwards."""
    parts, everything = [], []
    for index, layout in pairs:
        f, tensors, _, _ = call_of(op, samples[index])
        if options["backward"] and not isinstance(f, backward.WithGradients):
            continue
        try:
            tensors = laid_out(op, tensors, layout, samples[index] if options["backward"] else None)
            ref = trial.answer(f, oracle.counterpart(tensors))
            again = trial.answer(f, oracle.counterpart(tensors))
        except Exception:
            continue
        if oracle.compare(ref, again, again) is None:
            parts.append(((index, layout), f, slice(len(everything), len(everything) + len(tensors))))
            everything += tensors
    if len(parts) < 2:
        return {"class": "bundle", "detail": "too few"}

    space = {f"f{i}": f.f if options["backward"] else f for i, (_, f, _) in enumerate(parts)}
    names = [f"t{i}" for i in range(len(everything))]
    calls = ", ".join(f"f{i}({', '.join(names[where])})" for i, (_, _, where) in enumerate(parts))
    exec(f"def together({', '.join(names)}):\n    return [{calls}]\n", space)
    together = space["together"]
    if options["backward"]:
        together = backward.WithGradients(together, [where.start + i for _, f, where in parts for i in f.leaves])
    torch._dynamo.reset()
    record = trial.check(together, [everything], {"backend": options["backend"], "dynamic": False}, wide=None, aliases=not options["backward"])
    if record["class"] == "right":
        share = {"tenon_nodes": 0, "pytorch_nodes": 1 if record.get("pytorch_nodes") else 0}
        known.update({pair: {"class": "right", "detail": "", **share} for pair, _, _ in parts})
    return {**record, "class": "bundle", "detail": f"{len(parts)} cases: {record['class']}"}


def arrange(t, layout):
    """The tensor in another layout; with "expanded" and "empty" also with other values or sizes."""
    if not isinstance(t, torch.Tensor) or t.layout != torch.strided or type(t) not in (torch.Tensor,) or t.is_quantized:
        return t
    t = t.detach()
    if layout == "given" or (t.dim() == 0 and layout != "misaligned"):
        return t
    if layout == "transposed":
        return t.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "expanded":
        return t[:1].expand_as(t) if t.shape[0] else t
    if layout == "offset":
        big = torch.empty([n + 2 for n in t.shape], dtype=t.dtype)
        big.fill_(1)
        inner = big[tuple(slice(1, n + 1) for n in t.shape)]
        return inner.copy_(t)
    if layout == "misaligned":
        return torch.empty(t.numel() + 1, dtype=t.dtype)[1:].view(t.shape).copy_(t)
    raise KeyError(layout)


def emptied(tensors):
    """All dimensions of the first tensor's first size, in all tensors, become 0."""
    n = next((t.shape[0] for t in trial.tensors(tensors) if t.dim() and t.shape[0] != 1), None)
    if n is None:
        return None
    return [t.detach()[tuple(slice(0, 0) if m == n else slice(None) for m in t.shape)].clone()
            if isinstance(t, torch.Tensor) and t.layout == torch.strided else t for t in tensors]


def resized(tensors, size):
    """Each size n above 1 becomes size(n), in all tensors; the elements are repeated."""
    def one(t):
        if not isinstance(t, torch.Tensor) or t.layout != torch.strided or t.is_quantized:
            return t
        t = t.detach()
        for axis, n in enumerate(t.shape):
            if n > 1:
                t = t.index_select(axis, torch.arange(size(n)) % n)
        return t

    if not any(n > 1 for t in trial.tensors(tensors) for n in t.shape):
        return None
    return [one(t) for t in tensors]


SIZES = {"longer": lambda n: n + 1, "doubled": lambda n: 2 * n, "single": lambda n: 1}


class NoLayout(Exception):
    """The message is the reason."""


def laid_out(op, tensors, layout, differentiated=None):
    """The tensors of a call of op in another layout, or NoLayout. differentiated: the sample of the call, if its gradients are wanted."""
    if layout == "expanded" and op.name in OVERREADING:
        raise NoLayout("eager reads beyond an expanded axis")
    if layout == "empty" and differentiated is not None and op.name in CRASHING:
        raise NoLayout("eager ends the process")
    if layout in SIZES:
        found = resized(tensors, SIZES[layout])
    else:
        found = emptied(tensors) if layout == "empty" else [arrange(t, layout) for t in tensors]
    if found is None or (layout != "given" and not found):
        raise NoLayout("no such layout")
    if differentiated is not None and not differentiated.kwargs.get("stable") and (
            op.name in OF_EQUALS and layout == "expanded"
            or op.name in ("msort", "sort", "topk") and has_equals(found[0], axis_of(op, differentiated.args, differentiated.kwargs))):
        raise NoLayout("any of several equal elements may get the gradient")
    return found


def axis_of(op, args, kwargs):
    """The axis along which an operator of OF_EQUALS, or msort, orders the elements."""
    if op.name == "msort":
        return 0
    place = OF_EQUALS[op.name]
    return kwargs.get("dim", args[place] if len(args) > place else -1)


def has_equals(t, axis):
    """Whether a tensor has equal elements along an axis."""
    return t.dim() > 0 and bool((t.detach().sort(axis)[0].diff(dim=axis) == 0).any())


def elements_named(op):
    """The function with, in place of indices, the elements they name and whether they are within the axis; of a whole order
    that it names each of them."""
    def f(x, *args, **kwargs):
        out = op.op(x, *args, **kwargs)
        if isinstance(out, torch.Tensor) and (out.dtype != torch.int64 or op.name != "argsort") or x.dim() == 0:
            return out
        dim = axis_of(op, args, kwargs)
        values, indices = (None, out) if isinstance(out, torch.Tensor) else out
        whole = indices if indices.dim() == x.dim() else indices.unsqueeze(dim)
        each = whole.sort(dim)[0] if op.name in ("sort", "argsort") else None
        return values, x.take_along_dim(whole, dim), (indices >= 0) & (indices < max(x.shape[dim], 1)), each

    return f


def call_of(op, sample, numbers=False):
    """A function of the sample's tensors alone, or of its numbers too, these arguments, and a text that says what else the
    call holds."""
    of_equals = op.name in OF_EQUALS and not sample.kwargs.get("stable")
    tensors, space = [], {"op": elements_named(op) if of_equals else op.op}

    def text(x):
        if isinstance(x, torch.Tensor) or numbers and type(x) in (int, float):
            tensors.append(x)
            return f"t{len(tensors) - 1}"
        if isinstance(x, (list, tuple)) and type(x) in (list, tuple):
            inner = ", ".join(map(text, x))
            return f"[{inner}]" if isinstance(x, list) else f"({inner}{',' if len(x) == 1 else ''})"
        if x is None or isinstance(x, (bool, int, str)) or isinstance(x, float) and x == x and abs(x) != float("inf"):
            return repr(x)
        name = f"c{len(space)}"
        space[name] = x
        return name

    arguments = [text(sample.input), *map(text, sample.args), *(f"{k}={text(v)}" for k, v in sample.kwargs.items())]
    names = ", ".join(f"t{i}" for i in range(len(tensors)))
    source = f"def f({names}):\n    return op({', '.join(arguments)})\n"
    exec(source, space)
    look = source + repr([(t.dim(), str(t.dtype)) if isinstance(t, torch.Tensor) else type(t) for t in tensors])
    constants = {k: str(v) for k, v in space.items() if k.startswith("c")}
    leaves = [i for i, t in enumerate(tensors) if isinstance(t, torch.Tensor) and t.requires_grad]
    return backward.WithGradients(space["f"], leaves) if leaves else space["f"], tensors, look + str(constants), source


def widened(op, sample, numbers):
    """The same call with dtypes of float64 where it names narrower ones."""
    def wide(x):
        return torch.float64 if x in (torch.float32, torch.bfloat16, torch.float16) else x
    from torch.utils import _pytree as pytree
    copy = type(sample)(sample.input, args=pytree.tree_map(wide, tuple(sample.args)), kwargs=pytree.tree_map(wide, dict(sample.kwargs)))
    return call_of(op, copy, numbers)[0]


def run(op, sample, layout, mode, options, family):
    f, given, look, source = call_of(op, sample, mode == "numbers")
    if options["backward"] and not isinstance(f, backward.WithGradients):
        return {"class": "illegal", "detail": "no argument requires gradients"}
    try:
        tensors = laid_out(op, given, layout, sample if options["backward"] else None)
    except NoLayout as why:
        return {"class": "illegal", "detail": str(why)}
    how = {"backend": options["backend"], "dynamic": MODES[mode]}
    if mode == "unbacked":
        how["unbacked"] = [{i: n for i, n in enumerate(getattr(t, "shape", ())) if n > 1} for t in given]
    compiled = None
    if mode == "static":
        torch._dynamo.reset()
    else:
        f, compiled = family.setdefault(look, (f, trial.Compiled(f, how)))
        how = compiled.how
    if op.name in UNINITIALIZED:
        record = uninitialized(f, tensors, how)
    else:
        record = trial.check(f, [tensors], how, wide=widened(op, sample, mode == "numbers"), compiled=compiled, aliases=not options["backward"])
    if record["class"] == "not traceable":
        torch._dynamo.reset()
        again = trial.check(f, [tensors], {**how, "fullgraph": False}, wide=widened(op, sample, mode == "numbers"), aliases=not options["backward"])
        if again["class"] in ("wrong", "raised"):
            record = again
    record["call_text"] = source.split("return ")[1].strip()
    record["shapes"] = [list(t.shape) if isinstance(t, torch.Tensor) else t for t in tensors]
    return record


def uninitialized(f, tensors, how):
    """Compares only dtype, shape and strides, because the values are uninitialized memory."""
    try:
        ref = trial.answer(f, tensors)[0]
    except Exception as error:
        return {"class": "illegal", "detail": trial.last_line(error)}
    try:
        got = trial.Compiled(f, how)(tensors)[0]
    except Exception as error:
        theirs = trial.also_fails(f, [tensors], how, error)
        return {"class": "not traceable" if theirs else "raised", "detail": trial.last_line(error)}
    same = all((a.shape, a.dtype) == (b.shape, b.dtype) and oracle.same_strides(a, b) for a, b in zip(trial.tensors(ref), trial.tensors(got)))
    return {"class": "right" if same else "wrong", "detail": "" if same else "kind of tensor", **trial.stats_of(how["backend"])}


def classes(records, by_dtype=False):
    """Entry, or "entry dtype" -> its class: the worst of its cases."""
    found = {}
    for r in records:
        if "entry" not in r or r["class"] == "bundle":
            continue
        kind, name = r["class"], r["entry"] + f" {r['dtype']}" * by_dtype
        if kind == "right":
            kind = "pytorch" if r.get("pytorch_nodes") else "native"
        if kind == "unstable":
            kind = "native"
        if kind in ("illegal", "random") and name in found:
            continue
        before = found.get(name)
        if before is None or before in ("illegal", "random") or WORST.index(kind) > WORST.index(before):
            found[name] = kind
    return found


def lines_of(file):
    return [line.split("\t") for line in file.read_text().splitlines()] if file.exists() else []


class Expected:
    """The classes of a file of expectations."""

    def __init__(self, options):
        name = "backward_expected.txt" if options["backward"] else "op_db_expected.txt"
        self.wide, self.file, self.common = options["wide"], EXPECTED / name, {}
        if self.wide:
            self.common = dict(lines_of(self.file))
            self.file = EXPECTED / ("wide_backward_expected.txt" if options["backward"] else "wide_expected.txt")
            self.listed = {f"{entry} {dtype}": kind for entry, dtypes, kind in lines_of(self.file) for dtype in dtypes.split(",")}
        else:
            self.listed = dict(lines_of(self.file))

    def usual(self, name):
        """The class that needs no line."""
        if not self.wide:
            return None
        entry, dtype = name.split()
        kind = self.common.get(entry, "native")
        return "pytorch" if dtype == "c64" and kind == "native" else kind

    def changes(self, found, complete):
        """Triples (name, expected class, found class). complete: an expected name has to be found."""
        for name in sorted(set(found) | (set(self.listed) if complete else set())):
            before, after = self.listed.get(name, self.usual(name) or "absent"), found.get(name, "absent")
            if before != after:
                yield name, before, after

    def write(self, found):
        rows = {}
        for name, kind in sorted(found.items()):
            if kind != self.usual(name):
                entry, *dtype = name.split()
                rows.setdefault((entry, kind), []).extend(dtype)
        for dtypes in rows.values():
            dtypes.sort(key=list(DTYPES).index)
        self.file.write_text("".join("\t".join([entry, *[",".join(dtypes)] * self.wide, kind]) + "\n" for (entry, kind), dtypes in rows.items()))


def whole(options):
    size = WIDE if options["wide"] else CI
    every = not options["only"] and (options["first"], options["stride"]) == (0, 1)
    return options["ci"] and every and all(options[key] == value for key, value in size.items())


def finish(records, options):
    found = classes(records, options["wide"])
    counts = collections.Counter(found.values())
    print("\nentries: " + ", ".join(f"{counts[k]} {k}" for k in WORST if counts[k]) + f"; {len(found)} in all")
    bad = any(counts[k] for k in ("crash", "timeout", "tool"))
    if not options["ci"]:
        return 1 if bad or any(counts[k] for k in ("wrong", "raised", "reference")) else 0
    expected = Expected(options)
    if options["bless"]:
        expected.write(found)
        return 1 if bad else 0
    changed = list(expected.changes(found, whole(options) and options["backend"] == "tenon"))
    for name, before, after in changed:
        print(f"changed: {name}: {before} -> {after}")
    return 1 if changed else 0

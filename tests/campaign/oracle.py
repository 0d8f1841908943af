"""Judges whether a compiled result is right, by eager in the same dtypes and by eager in float64.

`compare(ref, got, exact)` returns None, or a sentence that says what is wrong. Structure, dtype, shape and strides have to be
eager's; integers and bools have to be equal. The error of a float, relative to float64, may be a small multiple of eager's error,
for each element, or else for the tensor's RMS and maximum. NaN and inf have to be where eager has them or where float64 has them
(a half may overflow between two fused operations, for example). `counterpart` copies inputs with their strides, offsets and
shared storages, so that each run gets the same. Tested by tests/campaign/campaign_test.py.
"""

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

# No reference is more exact than float64: its tolerance is a share of the value that covers another order of additions.
RELATIVE = {torch.float64: 1e-11}


def leaves(tree, path="output"):
    """(path, leaf) of a nested answer; caches and other objects of models are walked by their tensors."""
    if tree is None or isinstance(tree, (torch.Tensor, int, float, bool, str, complex, torch.dtype)):
        yield path, tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves(value, f"{path}.{key}")
    elif isinstance(tree, (tuple, list)):
        for i, value in enumerate(tree):
            yield from leaves(value, f"{path}[{i}]")
    elif hasattr(tree, "__dict__"):
        for key, value in vars(tree).items():
            if isinstance(value, (torch.Tensor, tuple, list, dict)) or hasattr(value, "layers"):
                yield from leaves(value, f"{path}.{key}")
            elif type(value).__module__.startswith("transformers.cache_utils"):
                yield from leaves(value, f"{path}.{key}")
    else:
        yield path, repr(tree)


def compare(ref, got, exact=None, most=3):
    """None if `got` is right, else a sentence. `exact` is None if float64 could not run. most: the error that is allowed, as a multiple
    of eager's."""
    a, b = list(leaves(ref)), list(leaves(got))
    if [path for path, _ in a] != [path for path, _ in b]:
        return f"structure: {len(b)} leaves instead of {len(a)}"
    c = [leaf for _, leaf in leaves(exact)] if exact is not None else [None] * len(a)
    if len(c) != len(a):
        c = [None] * len(a)
    for (path, x), (_, y), z in zip(a, b, c):
        problem = compare_leaf(x, y, z, most)
        if problem:
            return f"{path}: {problem}"
    return None


def compare_leaf(ref, got, exact=None, most=3):
    if not isinstance(ref, torch.Tensor) or not isinstance(got, torch.Tensor):
        if type(ref) is not type(got):
            return f"type: {type(got).__name__} instead of {type(ref).__name__}"
        if isinstance(ref, float):
            return None if ref == got or (ref != ref and got != got) or abs(ref - got) <= 1e-6 * abs(ref) else f"{got} instead of {ref}"
        return None if ref == got else f"{got!r} instead of {ref!r}"
    for what in ("dtype", "shape", "layout", "device"):
        if getattr(ref, what) != getattr(got, what):
            return f"{what}: {getattr(got, what)} instead of {getattr(ref, what)}"
    if ref.layout != torch.strided:
        return compare_leaf(ref.to_dense(), got.to_dense())
    if not same_strides(ref, got):
        return f"strides: {tuple(got.stride())} instead of {tuple(ref.stride())} (shape {tuple(ref.shape)})"
    return compare_values(plain(ref), plain(got), plain(exact) if isinstance(exact, torch.Tensor) else None, most)


def compare_values(ref, got, exact, most):
    if ref.numel() == 0:
        return None
    if ref.is_complex():
        wide = torch.view_as_real(exact.to(torch.complex128)) if exact is not None and exact.shape == ref.shape else None
        return compare_values(torch.view_as_real(ref), torch.view_as_real(got), wide, most)
    if not ref.is_floating_point():
        wrong = ref != got
        if not wrong.any():
            return None
        i = first(wrong)
        return f"values: {int(wrong.sum())} of {ref.numel()} integers differ, first at {i}: {got[i].item()} instead of {ref[i].item()}"
    r, g = ref.double(), got.double()
    if bool(((r == g) | (r.isnan() & g.isnan())).all()):
        return None
    e, known = r, False
    if exact is not None and exact.shape == ref.shape and not exact.is_complex():
        e, known = exact.double(), ref.dtype != torch.float64
    narrowed = e.to(ref.dtype).double()
    odd = (kind(g) != kind(r)) & (kind(g) != kind(narrowed))
    if odd.any():
        i = first(odd)
        return f"nan/inf: {int(odd.sum())} of {ref.numel()} differ, first at {i}: {got[i].item()} instead of {ref[i].item()}"
    info = torch.finfo(ref.dtype)
    both = g.isfinite() & e.isfinite()
    error = torch.where(both, (g - e).abs(), 0.0)
    eager = torch.where(both & r.isfinite(), (r - e).abs(), 0.0)
    size = torch.where(both, e.abs(), 0.0)
    relative = RELATIVE.get(ref.dtype, 4 * info.eps) if known or ref.dtype in RELATIVE else 30 * info.eps
    bad = error > most * eager + relative * size + 4 * info.tiny
    if not bad.any():
        return None
    if rms(error) <= most * rms(eager) + relative / 2 * rms(size) and error.max() <= 5 * eager.max() + relative * size.max():
        return None
    i = tuple(torch.unravel_index((error - most * eager).argmax(), error.shape))
    i = tuple(int(n) for n in i)
    return (f"values: {int(bad.sum())} of {ref.numel()} too far, worst at {i}: {got[i].item():.9g}, eager {ref[i].item():.9g}, "
            f"float64 {e[i].item():.9g}")


def first(mask):
    return tuple(int(n) for n in mask.nonzero()[0]) if mask.dim() else ()


def rms(x):
    return x.square().mean().sqrt().item()


def kind(x):
    return x.isnan() * 1 + (x == float("inf")) * 2 + (x == float("-inf")) * 3


def plain(t):
    return t.detach().resolve_conj().resolve_neg()


def same_strides(a, b):
    """Ignores the strides of dimensions of size 1 and of empty tensors."""
    return a.numel() == 0 or all(s == t for s, t, n in zip(a.stride(), b.stride(), a.shape) if n != 1)


def unstable(runs, ref, got, exact=None, most=3):
    """True if rounding changes eager's result about as much as `got` differs, so the function is unstable.
    runs: eager's results for inputs, or results of functions, moved by one unit in the last place. A leaf that `compare` accepts counts as equal."""
    flat = [[leaf for _, leaf in leaves(run)] for run in runs]
    exact = [leaf for _, leaf in leaves(exact)]
    for i, ((_, x), (_, y)) in enumerate(zip(leaves(ref), leaves(got))):
        if compare_leaf(x, y, exact[i] if len(exact) == len(flat[0]) else None, most) is None:
            continue
        if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor) or x.shape != y.shape or x.dtype != y.dtype:
            return False
        if not same_strides(x, y):
            return False
        x, y = plain(x), plain(y)
        moved = [plain(run[i]) for run in flat]
        if x.is_complex():
            x, y, moved = torch.view_as_real(x), torch.view_as_real(y), [torch.view_as_real(m) for m in moved]
        if not x.is_floating_point():
            loose = sum((m != x).double().mean().item() for m in moved)
            if (x != y).double().mean().item() > loose:
                return False
            continue
        x, y = x.double(), y.double()
        deviation = [torch.where(kind(m) == kind(x), (m - x).abs().nan_to_num(0.0), torch.inf) for m in (m.double() for m in moved)]
        mine = torch.where(kind(x) == kind(y), (x - y).abs().nan_to_num(0.0), torch.inf)
        reach = torch.stack(deviation).amax(0)
        if not bool((mine <= 8 * reach).all()) and not (mine.max() <= 4 * reach.max() and mine.isfinite().all()
                                                       and rms(mine) <= 4 * rms(reach)):
            return False
    return True


def counterpart(tree, change=None):
    """A copy of all tensors that keeps strides, offsets and which of them share storage. `change(flat)` may convert or
    move the values of a storage."""
    memo = {}

    def one(t):
        if not isinstance(t, torch.Tensor) or isinstance(t, torch.nn.Parameter):
            return t
        if t.layout != torch.strided or t.is_conj() or t.is_neg() or t.is_quantized or type(t) is not torch.Tensor:
            return t.clone()
        storage = t.untyped_storage()
        if storage.nbytes() == 0:
            copy = t.clone()
            return change(copy) if change else copy
        key = (storage.data_ptr(), t.dtype)
        if key not in memo:
            n = storage.nbytes() // t.element_size()
            flat = torch.empty(0, dtype=t.dtype).set_(storage, 0, (n,), (1,))
            memo[key] = change(flat) if change else flat.clone()
            if memo[key] is flat:
                memo[key] = flat.clone()
        return torch.empty(0, dtype=memo[key].dtype).set_(memo[key].untyped_storage(), t.storage_offset(), t.shape, t.stride())

    with torch.no_grad():
        return pytree.tree_map(one, tree)


def widen(flat):
    if flat.is_complex():
        return flat.to(torch.complex128)
    return flat.to(torch.float64) if flat.is_floating_point() else flat.clone()


def moved(seed):
    """For `counterpart`: each float moves by at most one unit in the last place."""
    generator = torch.Generator().manual_seed(seed)

    def change(flat):
        if not flat.is_floating_point() or flat.dtype.itemsize < 2:
            return flat.clone()
        step = torch.randint(-1, 2, flat.shape, generator=generator).to(torch.float64)
        return (flat.double() * (1 + step * torch.finfo(flat.dtype).eps)).to(flat.dtype)

    return change


class Rounded(TorchDispatchMode):
    """Moves the results of functions that no standard rounds, as another library does: each element by at most one unit in the last place."""

    FUNCTIONS = set("exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh sigmoid silu gelu erf erfc rsqrt pow "
                    "_softmax _log_softmax logsumexp".split())

    def __init__(self, seed):
        super().__init__()
        self.change = moved(seed)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func._overloadpacket.__name__ in self.FUNCTIONS and isinstance(out, torch.Tensor) and out.is_floating_point():
            return self.change(out)
        return out


def sharing(tensors):
    """Returns the pairs of positions of tensors that share storage, as a set."""
    ids = [t.untyped_storage().data_ptr() if isinstance(t, torch.Tensor) and t.layout == torch.strided and t.numel() else None
           for t in tensors]
    return {(i, j) for i in range(len(ids)) for j in range(i) if ids[i] is not None and ids[i] == ids[j]}

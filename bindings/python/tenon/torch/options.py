"""The options of the backend: torch.compile(model, backend="tenon", options={...}). Tested by tests/torch/test_backend.py.
"""

import dataclasses
import difflib

from .. import _abi

FALLBACKS = ("auto", "count", "error")
RNGS = ("torch", "fast")
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
GRAPHS_OF_MODE = {"reduce-overhead": "always", "max-autotune": "always", "max-autotune-no-cudagraphs": "never"}


class OptionError(ValueError):
    pass


@dataclasses.dataclass(frozen=True)
class Options:
    """freeze: on the CPU, packs parameters into programs once, and again when a parameter changes.

    fallback: what happens to a node that Tenon cannot take. "auto" runs it in PyTorch and counts it, "count" also logs it
    (logger "tenon", level INFO), "error" raises.

    num_threads: 0 means as many as PyTorch uses.

    specialize: whether kernels are compiled again with their sizes as constants; results are the same bit for bit. "off": never;
    "background": hot kernels, by a thread of low priority; "wait": all kernels before they first run.

    rng: who draws random numbers. "torch": PyTorch, with the numbers of eager mode. "fast": Tenon's kernels, from seeds that
    PyTorch draws. The distributions are the same and torch.manual_seed makes runs reproducible, but the numbers are not those
    of eager mode.

    device_graphs: on a GPU, whether the kernels of a program are launched as one CUDA graph. "auto": if the kernels are small;
    "always"; "never".

    verify: on the CPU, Tenon's evaluator also computes the first `verify` calls of each program, and the results are compared.
    If they differ, PyTorch computes the call, and the smallest graph that differs is logged (logger "tenon", level ERROR)."""

    freeze: bool = False
    fallback: str = "auto"
    num_threads: int = 0
    specialize: str = "off"
    rng: str = "torch"
    device_graphs: str = "auto"
    verify: int = 0

    @classmethod
    def parse(cls, options):
        options = dict(options or {})
        known = {f.name: type(f.default) for f in dataclasses.fields(cls)}
        for name, value in options.items():
            if name not in known:
                raise OptionError(f"tenon: unknown option {name!r}{nearest(name, known)}")
            if type(value) is not known[name]:
                raise OptionError(f"tenon: option {name} is {value!r}, where a {known[name].__name__} is expected")
        result = cls(**options)
        for name, choices in (("fallback", FALLBACKS), ("specialize", _abi.SPECIALIZE), ("rng", RNGS),
                              ("device_graphs", _abi.DEVICE_GRAPHS)):
            if (value := getattr(result, name)) not in choices:
                raise OptionError(f"tenon: option {name} is {value!r}{nearest(value, choices)}")
        for name in ("num_threads", "verify"):
            if (value := getattr(result, name)) < 0:
                raise OptionError(f"tenon: option {name} is {value}, where 0 or more is expected")
        return result


def nearest(name, known):
    near = difflib.get_close_matches(str(name), list(known), 1, 0.4)
    return (f"; did you mean {near[0]!r}?" if near else "") + f" (known: {', '.join(known)})"

"""The options of the backend: torch.compile(model, backend="tenon", options={...}). Tested by tests/torch/test_backend.py.
"""

import dataclasses

from .. import _abi
from ..names import nearest

FALLBACKS = ("auto", "count", "error")
RNGS = ("torch", "fast")
RECOMPUTE = ("cheap", "none")
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

    rng: who draws random numbers. "torch": PyTorch, with the numbers of eager mode. "fast": Tenon's kernels, from seeds that
    PyTorch draws. The distributions are the same and torch.manual_seed makes runs reproducible, but the numbers are not those
    of eager mode.

    recompute: what a backward pass computes again so that the forward pass saves less. "cheap": elementwise operators, casts and
    norms; "none": nothing.

    memory_budget: how much a forward pass may save for the backward pass, as in torch._functorch.config.activation_memory_budget:
    1.0 sets no limit, 0.0 computes everything again except random numbers. Anything below 1.0 may also compute expensive
    operators again. A value other than 1.0 in PyTorch's own configuration, and the budget of a region, come first.

    device_graphs: on a GPU, whether the kernels of a program are launched as one CUDA graph. "auto": if the kernels are small;
    "always"; "never".

    verify: on the CPU, Tenon's evaluator also computes the first `verify` calls of each program, and the results are compared.
    If they differ, PyTorch computes the call, and the smallest graph that differs is logged (logger "tenon", level ERROR).

    benchmark: on the CPU, calls 21 to 34 with the same sizes are measured in Tenon and in PyTorch in turn. If PyTorch takes at most 0.9 of
    Tenon's time, it computes later calls with these sizes, and stats() counts the reason. Results may change by rounding from call
    to call."""

    freeze: bool = False
    fallback: str = "auto"
    num_threads: int = 0
    rng: str = "torch"
    recompute: str = "cheap"
    memory_budget: float = 1.0
    device_graphs: str = "auto"
    verify: int = 0
    benchmark: bool = False

    @classmethod
    def parse(cls, options):
        options = dict(options or {})
        known = {f.name: type(f.default) for f in dataclasses.fields(cls)}
        for name, value in options.items():
            if name not in known:
                raise OptionError(f"tenon: unknown option {name!r}{nearest(name, known)}")
            if known[name] is float and type(value) is int:
                options[name] = value = float(value)
            if type(value) is not known[name]:
                raise OptionError(f"tenon: option {name} is {value!r}, where a {known[name].__name__} is expected")
        result = cls(**options)
        for name, choices in (("fallback", FALLBACKS), ("rng", RNGS), ("recompute", RECOMPUTE),
                              ("device_graphs", _abi.DEVICE_GRAPHS)):
            if (value := getattr(result, name)) not in choices:
                raise OptionError(f"tenon: option {name} is {value!r}{nearest(value, choices)}")
        for name in ("num_threads", "verify"):
            if (value := getattr(result, name)) < 0:
                raise OptionError(f"tenon: option {name} is {value}, where 0 or more is expected")
        if not 0 <= result.memory_budget <= 1:
            raise OptionError(f"tenon: option memory_budget is {result.memory_budget}, where a number from 0 to 1 is expected")
        if result.benchmark and result.fallback == "error":
            raise OptionError("tenon: option fallback is 'error', but benchmark=True may choose PyTorch")
        return result

"""tenon.explain: compiles a model, calls it once and reports. With benchmark=True it calls the model until it is decided who computes
each segment. If gradients are needed, the backward graphs are compiled too, but do not run.
Tested by tests/torch/test_fallback.py, test_backend.py, test_recompute.py and test_benchmark.py.
"""

import collections

import torch
from torch._dynamo.utils import counters

from ..report import Report
from .compile import compile_graph
from .options import Options
from .runtime import benchmark
from .saved import eager_values
from .whole import recurrent


def explain(model, args, kwargs, tenon_options):
    records = []

    def collector(gm, example_inputs):
        start = len(records)
        function = compile_graph(gm, example_inputs, Options.parse(tenon_options), records)
        for record in records[start:]:
            if record.saved:
                record.saved.eager = eager_values(gm, example_inputs)
        return function

    recurrent.allow(collector)
    model = getattr(model, "_orig_mod", model)
    before = collections.Counter(counters["graph_break"])
    with torch._functorch.config.patch(force_non_lazy_backward_lowering=True):
        compiled = torch.compile(model, backend=collector)
        result = compiled(*args, **kwargs)
        for _ in range(benchmark.CALLS - 1 if Options.parse(tenon_options).benchmark else 0):
            compiled(*args, **kwargs)
    breaks = dict(collections.Counter(counters["graph_break"]) - before)
    return Report(records, breaks, result)

"""tenon.explain: compiles a model, calls it once and reports. If gradients are needed, the backward graphs are compiled too, but do
not run. Tested by tests/torch/test_fallback.py, test_backend.py and test_recompute.py.
"""

import collections

import torch
from torch._dynamo.utils import counters

from ..report import Report
from . import recurrent
from .compile import compile_graph
from .options import Options
from .saved import eager_bytes


def explain(model, args, kwargs, tenon_options):
    records = []

    def collector(gm, example_inputs):
        start = len(records)
        function = compile_graph(gm, example_inputs, Options.parse(tenon_options), records)
        for record in records[start:]:
            if record.saved:
                record.saved.eager_bytes = eager_bytes(gm, example_inputs)
        return function

    recurrent.allow(collector)
    model = getattr(model, "_orig_mod", model)
    before = collections.Counter(counters["graph_break"])
    with torch._functorch.config.patch(force_non_lazy_backward_lowering=True):
        result = torch.compile(model, backend=collector)(*args, **kwargs)
    breaks = dict(collections.Counter(counters["graph_break"]) - before)
    return Report(records, breaks, result)

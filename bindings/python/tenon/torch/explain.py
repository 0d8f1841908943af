"""tenon.explain: compiles a model, calls it once and reports. Tested by tests/torch/test_fallback.py and test_backend.py.
"""

import collections

import torch
from torch._dynamo.utils import counters

from ..report import Report
from .compile import compile_graph
from .options import Options


def explain(model, args, kwargs, tenon_options):
    records = []

    def collector(gm, example_inputs):
        return compile_graph(gm, example_inputs, Options.parse(tenon_options), records)

    model = getattr(model, "_orig_mod", model)
    before = collections.Counter(counters["graph_break"])
    result = torch.compile(model, backend=collector)(*args, **kwargs)
    breaks = dict(collections.Counter(counters["graph_break"]) - before)
    return Report(records, breaks, result)

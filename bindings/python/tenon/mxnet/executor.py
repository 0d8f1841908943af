"""Executors train without telling plugins: MXNet's Executor.forward(is_train=True) is the only place that knows. Blocks need no
guard, because the plugin asks MXNet whether autograd trains."""

import functools
import json

from .. import _abi
from .explain import SUBGRAPH


def guard(mxnet):
    """Makes Executor.forward(is_train=True) raise an MXNetError for a symbol whose subgraphs compute inference only."""
    executor = mxnet.executor.Executor
    forward = executor.forward

    @functools.wraps(forward)
    def guarded(self, is_train=False, **kwargs):
        if is_train:
            why = self.__dict__.get("_tenon_refusal")
            if why is None:
                why = self._tenon_refusal = refusal(self._symbol)
            if why:
                raise mxnet.base.MXNetError(why)
        return forward(self, is_train, **kwargs)

    executor.forward = guarded


def refusal(symbol):
    """Why a partitioned symbol cannot train; "" if it can."""
    for node in json.loads(symbol.tojson())["nodes"]:
        if node["op"] != SUBGRAPH or node.get("attrs", {}).get("tenon_mode") == "training":
            continue
        inside = node["subgraphs"][0]
        with _abi.Symbol(json.dumps(inside)) as subgraph:
            for number, why in subgraph.refused(True, 1, None).items():
                op, name = inside["nodes"][number]["op"], inside["nodes"][number]["name"]
                return (f"the graph was partitioned for inference and is called for training: {op} '{name}': {why}; partition it "
                        'with mode="training", or call forward with is_train=False')
    return ""

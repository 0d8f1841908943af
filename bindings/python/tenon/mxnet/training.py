"""Checks the options of Symbol.optimize_for, and puts copies before the subgraphs that train. MXNet does not tell plugins whether a
gradient is to be written to an array or added to it. It does tell its own operators. So each operand of such a subgraph is a copy that
only this subgraph reads: the subgraph's gradient is written, and MXNet's operator adds it where it must be added.
Tested by tests/mxnet/test_gradient_requests.py."""

import functools
import inspect
import json

from . import options
from .explain import SUBGRAPH

GUARD = "__tenon_guard__"  # on a copy; the library refuses to take the copy into a subgraph (src/mxnet/translate/training.h)
GUARDED = "tenon_guarded"  # on a subgraph; without it the plugin refuses to compute gradients


def wrap(mxnet):
    """Makes Symbol.optimize_for, which blocks call too, check its options and return guarded symbols."""
    symbol = mxnet.symbol.Symbol
    optimize_for = symbol.optimize_for
    known = inspect.signature(optimize_for).parameters  # MXNet's own

    @functools.wraps(optimize_for)
    def wrapped(self, backend, *args, **kwargs):
        if backend == "tenon":
            options.check(mxnet, {name: value for name, value in kwargs.items() if name not in known})
        return guarded(mxnet, optimize_for(self, backend, *args, **kwargs))

    symbol.optimize_for = wrapped


def guarded(mxnet, symbol):
    """The symbol with copies before its subgraphs that train; the symbol itself if nothing is missing."""
    graph = json.loads(symbol.tojson())
    if not any(map(_unguarded, graph["nodes"])):
        return symbol
    out = mxnet.symbol.load_json(json.dumps(insert(graph, set(symbol.list_auxiliary_states()))))
    return out if type(out) is type(symbol) else out.as_np_ndarray()


def insert(graph, auxiliary):
    """The JSON with a copy on each edge into a subgraph that trains. Auxiliary states stay edges: a copy would make them arguments, and
    MXNet takes no gradient of them."""
    names, nodes, number = {node["name"] for node in graph["nodes"]}, [], {}

    def copy(node, place, entry):
        name = unused(f"{node['name']}_operand{place}", names)
        # The attribute has another value on each copy, so that MXNet does not take several copies of one value for one.
        nodes.append({"op": "_copy", "name": name, "attrs": {GUARD: name}, "inputs": [entry]})
        return [len(nodes) - 1, 0, 0]

    for old, node in enumerate(graph["nodes"]):
        node = dict(node, inputs=[[number[e[0]], *e[1:]] for e in node["inputs"]])
        if "control_deps" in node:
            node["control_deps"] = [number[dep] for dep in node["control_deps"]]
        if _unguarded(node):
            node["inputs"] = [entry if nodes[entry[0]]["op"] == "null" and nodes[entry[0]]["name"] in auxiliary
                              else copy(node, place, entry) for place, entry in enumerate(node["inputs"])]
            node["attrs"] = {**node["attrs"], GUARDED: "True"}
        number[old] = len(nodes)
        nodes.append(node)
        if node["op"] == "Custom":  # MXNet passes all attributes to the operator's class, which knows no inferred types
            node["attrs"] = {key: value for key, value in node["attrs"].items() if not key.startswith("__ext_")}
    kept = {key: value for key, value in graph.items() if key != "node_row_ptr"}
    return {**kept, "nodes": nodes, "arg_nodes": [number[i] for i in graph["arg_nodes"]],
            "heads": [[number[e[0]], *e[1:]] for e in graph["heads"]]}


def unused(name, names):
    """The name, with a number behind it if it is in use. Adds it to the names."""
    candidate, count = name, 0
    while candidate in names:
        count += 1
        candidate = f"{name}_{count}"
    names.add(candidate)
    return candidate


def _unguarded(node):
    attrs = node.get("attrs", {})
    return node["op"] == SUBGRAPH and attrs.get("tenon_mode") == "training" and attrs.get(GUARDED) != "True"

"""Says which operators of a symbol Tenon runs, which stay with MXNet, and why."""

import json
from collections import Counter
from dataclasses import dataclass, field

from .. import _abi
from . import options

SUBGRAPH = "_tenon_subgraph"


@dataclass
class Report:
    """stays: (name, operator, why) of each operator that stays with MXNet. runs: operator -> count, of those that Tenon runs.
    parts: the names of each subgraph's operators."""

    runs: Counter = field(default_factory=Counter)
    stays: list = field(default_factory=list)
    parts: list = field(default_factory=list)

    def __str__(self):
        lines = [f"Tenon runs {sum(self.runs.values())} operators in {len(self.parts)} subgraphs; {len(self.stays)} stay with MXNet"]
        lines += [f"  subgraph {number}: {len(part)} operators, {part[0]} to {part[-1]}" for number, part in enumerate(self.parts)]
        lines += [f"  stays: {op} '{name}': {why}" for name, op, why in self.stays]
        return "\n".join(lines)

    def to_dict(self):
        return {"runs": dict(self.runs), "stays": [list(each) for each in self.stays], "parts": self.parts}


def explain(model, *inputs, mode=None, op_names=None, min_nodes=None):
    """A Report for a symbol or a HybridBlock. inputs: of a block, arrays or None; needed only if the block takes more than one.
    The options are those of optimize_for; a block's own ones hold unless others are given. A symbol that is already partitioned is
    reported as it is."""
    own = options.of_block(model)
    mode = mode or own.get("mode", "inference")
    op_names = op_names or own.get("op_names")
    min_nodes = int(min_nodes or own.get("min_nodes", 1))
    if mode not in ("inference", "training"):
        raise ValueError(f'mode is "inference" or "training", not {mode!r}')
    text = _symbol(model, inputs).tojson()
    report, nodes = Report(), json.loads(text)["nodes"]
    for node in nodes:
        if node["op"] == SUBGRAPH:
            inside = [n for n in node["subgraphs"][0]["nodes"] if n["op"] != "null"]
            report.runs.update(n["op"] for n in inside)
            report.parts.append([n["name"] for n in inside])
    names = ",".join(options.names_of(op_names)) or None
    with _abi.Symbol(text) as symbol:
        parts = symbol.partition(mode == "training", min_nodes, names)
        reasons = symbol.refused(mode == "training", min_nodes, names)
        for number in range(max(parts, default=-1) + 1):
            inside = [nodes[i] for i, part in enumerate(parts) if part == number]
            report.runs.update(n["op"] for n in inside)
            report.parts.append([n["name"] for n in inside])
        for i, node in enumerate(nodes):
            if parts[i] < 0 and node["op"] not in ("null", SUBGRAPH):
                why = reasons.get(i) or f"its subgraph would have fewer than {min_nodes} operators"
                report.stays.append((node["name"], node["op"], why))
    return report


def _symbol(model, inputs):
    if hasattr(model, "tojson"):
        return model
    import mxnet

    count = max(len(inputs), 1)
    names = ["data"] if count == 1 else [f"data{i}" for i in range(count)]
    outputs = model(*map(mxnet.sym.var, names))
    return outputs if hasattr(outputs, "tojson") else mxnet.sym.Group(list(_flat(outputs)))


def _flat(outputs):
    for each in outputs:
        if isinstance(each, (list, tuple)):
            yield from _flat(each)
        else:
            yield each

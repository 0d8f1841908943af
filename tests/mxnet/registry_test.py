"""Which of MXNet's operators Tenon translates: the list registry.txt against the registry of MXNet 1.9.1.

The list has a line per operator, without those of gradients: "translated NAME" or "left NAME". TENON_BLESS=1 rewrites it.
"""

import os
from pathlib import Path

import tenon_symbol
from mxnet_help import canonical_operators, node_symbol

LIST = Path(__file__).with_name("registry.txt")


def line(op):
    answer = tenon_symbol.Symbol(node_symbol(op, [], {})).query()[0]
    return ("left " if answer[3] == "Tenon does not translate this operator" else "translated ") + op


def test_the_list_is_the_registry():
    text = "".join(line(op) + "\n" for op in canonical_operators() if op != "_tenon_subgraph")
    if os.environ.get("TENON_BLESS"):
        LIST.write_text(text)
    assert LIST.read_text() == text

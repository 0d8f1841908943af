"""The options of the backend "tenon", which MXNet passes on unread: the plugin takes those that it knows. Tested by
tests/mxnet/test_partition.py."""

from ..names import nearest, similar

OPTIONS = ("mode", "freeze", "op_names", "min_nodes", "dedup_subgraph")  # the plugin checks their values (options.cc)


def check(mxnet, given):
    """Raises ValueError for an option or an operator that does not exist."""
    for name in given:
        if name not in OPTIONS:
            raise ValueError(f"tenon: unknown option {name!r}{nearest(name, OPTIONS)}")
    operators = mxnet.operator.get_all_registered_operators()
    for name in names_of(given.get("op_names")):
        if name not in operators:
            raise ValueError(f"tenon: op_names: MXNet has no operator {name!r}{similar(name, operators)}")


def names_of(op_names):
    """The names of a list, or of a text with commas between them."""
    if op_names is None:
        return []
    names = op_names.split(",") if isinstance(op_names, str) else op_names
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"tenon: op_names is a list of names, or names with commas between them, not {op_names!r}")
    return [name.strip() for name in names if name.strip()]


def of_block(block):
    """The options that hybridize or optimize_for has given to a block; none if its backend is another one."""
    return getattr(block, "_backend_opts", {}) if getattr(block, "_backend", None) == "tenon" else {}

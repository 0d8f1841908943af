"""Cuts the joint graph that AOTAutograd traces into a forward and a backward graph, and chooses what the forward graph saves.

PyTorch's min-cut chooses: of the nodes that it may compute again, it saves those with the fewest bytes. Options.recompute says which
nodes these are. The tags of torch.utils.checkpoint, PyTorch's own budget and the budget of a region come first.
Tested by tests/torch/test_training.py and test_recompute.py.
"""

import operator

import torch
from torch._functorch import config
from torch._functorch.compile_utils import rand_ops
from torch._functorch.partitioners import default_partition, min_cut_rematerialization_partition, must_recompute
from torch.fx.traceback import MEMORY_BUDGET_ANNOTATION_KEY, _get_memory_budget_annotation
from torch.utils.checkpoint import CheckpointPolicy

from . import images, rng, windows
from .saved import Saved
from .whole import attention

aten = torch.ops.aten
NORMS = (aten.native_layer_norm.default, aten.native_group_norm.default)  # PyTorch's min-cut never computes them again by itself
COMPARISONS = {getattr(aten, name).Tensor for name in ("eq", "ne", "lt", "le", "gt", "ge")}
LEAST_BUDGET = 1e-9  # with 0, PyTorch's min-cut ignores tags, and would draw random numbers again


def partition(joint, inputs, *, num_fwd_outputs, options, tell=None, **named):
    """A partitioner for AOTAutograd. options: Options; tell: is called with a Saved."""
    budget = config.activation_memory_budget if config.activation_memory_budget != 1 else options.memory_budget
    limited = budget < 1 or any(region < 1 for region in _budgets(joint))
    attention.drop_logsumexp(joint)
    if options.rng == "torch":
        rng.plant_draws(joint, saved=True)  # now, because a mask cannot be drawn again, but a product with it can be computed again
    else:
        rng.plant_seeded_masks(joint, again=limited or options.recompute == "cheap")
    if limited or options.recompute == "cheap":
        windows.plant_offsets(joint)
    least = _keep_values(joint, num_fwd_outputs)
    _raise_budgets(joint, least)
    checkpointed = {n.name for n in joint.graph.nodes if must_recompute(n) and "tenon_again" not in n.meta} if tell else ()
    named["num_fwd_outputs"] = num_fwd_outputs
    if options.recompute == "none" and not limited:
        graphs = default_partition(joint, inputs, **named)
    else:
        if options.recompute == "cheap":
            _recompute_norms(joint)
        wanted = {"activation_memory_budget": max(budget, least)} if limited else {"ban_recompute_materialized_backward": False}
        if _has_calls_to_keep_apart(joint):
            wanted["cse"] = False
        with config.patch(wanted):
            graphs = min_cut_rematerialization_partition(joint, inputs, **named)
        if _saves_tuples(graphs[0], num_fwd_outputs):
            graphs = default_partition(joint, inputs, **named)
    if tell:
        tell(Saved(*graphs, num_fwd_outputs,
                   lambda n: "checkpointed" if n.name in checkpointed else "the memory budget" if limited else "cheap"))
    images.lay_out(*graphs, num_fwd_outputs)
    return graphs


def _keep_values(joint, num_fwd_outputs):
    """Tags what draws random numbers, and what comparisons are computed from, as saved. Nodes of a checkpointed region have tags already,
    and PyTorch restores the generator for them. Returns the least budget with which PyTorch's min-cut minds the tags."""
    kept = [n for n in joint.graph.nodes if rng.draws_numbers(n)] + _compared_values(joint, num_fwd_outputs)
    for n in kept:
        n.meta.setdefault("recompute", CheckpointPolicy.MUST_SAVE)
    return LEAST_BUDGET if kept else 0.0


def _compared_values(joint, num_fwd_outputs):
    """The values of the forward pass that a comparison of two floats is computed from, if the two have a common source. The gradient of amax
    asks which elements equal the maximum: if the backward graph computed the elements again and rounded them in another place than the
    forward graph, none would."""
    forward, found = _sources(joint.graph.output_node().args[0][:num_fwd_outputs]), set()
    for n in joint.graph.nodes:
        if n.target in COMPARISONS and all(x.meta["val"].is_floating_point() for x in n.args):
            if _sources([n.args[0]]) & _sources([n.args[1]]):
                found |= _sources(n.args, until=lambda x: x in forward and not images.is_view(x))
    return [n for n in found & forward if n.op == "call_function" and not images.is_view(n)]


def _sources(nodes, until=lambda n: False):
    """The nodes and what they are computed from, without what those with until(node) are computed from."""
    seen, left = set(), [n for n in nodes if isinstance(n, torch.fx.Node)]
    while left:
        if (n := left.pop()) not in seen:
            seen.add(n)
            left += [] if until(n) else n.all_input_nodes
    return seen


def _has_calls_to_keep_apart(joint):
    """Whether PyTorch's min-cut would merge equal calls that it must keep apart. Merged calls that draw random numbers draw them once; of
    merged calls that bind sizes (nonzero), only one gives its symbol a value."""
    calls = [n for n in joint.graph.nodes if n.op == "call_function"]
    drawing = [n.target for n in calls if rng.draws_numbers(n)]
    merged = [t for t in drawing if isinstance(t, torch._ops.OpOverload) and t.overloadpacket not in rand_ops]
    merged += [n.target for n in calls if n.meta.get("unbacked_bindings")]
    return len(set(merged)) < len(merged)


def _budgets(joint):
    """The budgets of regions (torch.autograd.graph.region_activation_memory_budget)."""
    return {_get_memory_budget_annotation(n) for n in joint.graph.nodes} - {None}


def _raise_budgets(joint, least):
    """Raises the budgets of regions to the least one."""
    for n in joint.graph.nodes:
        if (budget := _get_memory_budget_annotation(n)) is not None:
            n.meta["custom"] = n.meta["custom"] | {MEMORY_BUDGET_ANNOTATION_KEY: max(budget, least)}


def _saves_tuples(forward, num_fwd_outputs):
    """Whether the forward graph saves several results of a node as one value, which cannot be. With a budget below 1, PyTorch's min-cut
    does so if it saves nothing else than nodes that draw random numbers."""
    return any(isinstance(n.meta.get("val"), tuple) for n in forward.graph.output_node().args[0][num_fwd_outputs:] if isinstance(n, torch.fx.Node))


def copy_written_inputs(forward, written, saved):
    """Lets a forward graph save copies of the inputs that it writes to, because the backward graph reads what they held before.
    written: the indices of these inputs; saved: the index of the first saved value among the results."""
    inputs, output = forward.graph.find_nodes(op="placeholder"), forward.graph.output_node()
    results, copies = list(output.args[0]), {}
    with forward.graph.inserting_after(inputs[-1]):
        for n in (inputs[i] for i in written):
            if n in results[saved:]:
                copies[n] = forward.graph.call_function(aten.clone.default, (n,))
                with n.meta["val"].fake_mode:
                    copies[n].meta["val"] = n.meta["val"].clone()
    output.args = ((*results[:saved], *(copies.get(n, n) for n in results[saved:])),)


def _recompute_norms(joint):
    """Tags the norms of the forward pass. Their backward nodes read the input of a norm, so nothing is saved for its result."""
    for n in joint.graph.nodes:
        source = n.args[0] if n.target is operator.getitem else n
        if source.target in NORMS and n.meta.get("partitioner_tag") != "is_backward":
            rng.compute_again(n)

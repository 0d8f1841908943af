"""Cuts the joint graph that AOTAutograd traces into a forward and a backward graph, and chooses what the forward graph saves.

PyTorch's min-cut chooses: of the nodes that it may compute again, it saves those with the fewest bytes. Options.recompute says which
nodes these are. The tags of torch.utils.checkpoint, PyTorch's own budget and the budget of a region come first.
Tested by tests/torch/test_training.py, test_training_norms.py and test_recompute.py.
"""

import operator

import torch
from torch._functorch import config
from torch._functorch.compile_utils import rand_ops
from torch._functorch.partitioners import default_partition, min_cut_rematerialization_partition, must_recompute
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.fx.traceback import MEMORY_BUDGET_ANNOTATION_KEY, _get_memory_budget_annotation
from torch.utils.checkpoint import CheckpointPolicy

from . import images, rng, windows
from .lowering import layouts, pairs
from .saved import Saved
from .whole import attention

aten, tenon = torch.ops.aten, torch.ops.tenon
LAYER, GROUP = aten.native_layer_norm.default, aten.native_group_norm.default
NORMS = (LAYER, GROUP)  # PyTorch's min-cut never computes them again by itself
COMPARISONS = {getattr(aten, name).Tensor for name in ("eq", "ne", "lt", "le", "gt", "ge")}
LEAST_BUDGET = 1e-9  # with 0, PyTorch's min-cut ignores tags, and would draw random numbers again


def partition(joint, inputs, *, num_fwd_outputs, options, tell=None, **named):
    """A partitioner for AOTAutograd. options: Options; tell: is called with a Saved."""
    budget = config.activation_memory_budget if config.activation_memory_budget != 1 else options.memory_budget
    limited = budget < 1 or any(region < 1 for region in _budgets(joint))
    attention.drop_logsumexp(joint)
    pairs.rewrite(joint)  # now, so that real numbers are saved
    _widen_statistics(joint, num_fwd_outputs)
    _lay_out_kernel_gradients(joint, num_fwd_outputs)
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
            _plant_group_norms(joint, num_fwd_outputs)
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


def _lay_out_kernel_gradients(joint, num_fwd_outputs):
    """Gives the gradient of a kernel the kernel's strides, if the two differ only along axes of size 1, as those of 1x1 kernels may. DDP
    compares the strides of all axes."""
    inputs = [n for n in joint.graph.find_nodes(op="placeholder") if n.name.startswith("primals")]
    for n, gradient in zip(inputs, joint.graph.output_node().args[0][num_fwd_outputs:]):
        if gradient is None or not _is_of_kernel(gradient):
            continue
        to, fake = n.meta["val"], gradient.meta["val"]
        if not all(t.layout == torch.strided and all(isinstance(i, int) for i in (*t.shape, *t.stride())) for t in (to, fake)):
            continue
        if to.shape == fake.shape and layouts.normal_strides(to.shape, to.stride()) == layouts.normal_strides(fake.shape, fake.stride()):
            with fake.fake_mode:
                gradient.meta["val"] = fake.as_strided(to.shape, to.stride(), fake.storage_offset())


def _is_of_kernel(gradient):
    """Whether a node is the gradient of a convolution's kernel, or its copy in another dtype."""
    while gradient.target is aten._to_copy.default:
        gradient = gradient.args[0]
    return gradient.target is operator.getitem and gradient.args[0].target is aten.convolution_backward.default


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


def _norms(joint, num_fwd_outputs, *targets):
    """Finds the norms of the forward pass on a CPU whose mean and deviation the forward graph does not return. Returns a pair for each: its node,
    and {index: node that reads this result}."""
    returned, found = set(joint.graph.output_node().args[0][:num_fwd_outputs]), []
    for n in joint.graph.nodes:
        if n.target in targets and n.meta.get("partitioner_tag") != "is_backward" and n.meta["val"][0].device.type == "cpu":
            results = {u.args[1]: u for u in n.users}
            if all(returned.isdisjoint(images.aliases_of(u)) for i, u in results.items() if i > 0):
                found.append((n, results))
    return found


def _widen_statistics(joint, num_fwd_outputs):
    """The gradient of a norm reads the mean and the deviation of each row or group. PyTorch's tracer says that those of 16-bit floats have
    16 bits. PyTorch's kernel keeps them in f32 if the gain is f32, as under autocast; then Tenon does so too."""
    for n, results in _norms(joint, num_fwd_outputs, *NORMS):
        parameters = [p for p in (n.args[2:4] if n.target is LAYER else n.args[1:3]) if p is not None]
        y, *statistics = n.meta["val"]
        if y.dtype not in (torch.bfloat16, torch.float16) or all(p.meta["val"].dtype != torch.float32 for p in parameters):
            continue
        with y.fake_mode:
            n.meta["val"] = (y, *(s.float() for s in statistics))
        for i, u in results.items():
            for same in images.aliases_of(u):
                same.meta["val"] = n.meta["val"][i]


def _plant_group_norms(joint, num_fwd_outputs):
    """Replaces group norms and their gradients by those of whole/norms.py, which save the mean and the deviation."""
    graph, convolved = joint.graph, images.of_convolutions(joint)
    for n, results in _norms(joint, num_fwd_outputs, GROUP):
        if set(results) != {0, 1, 2}:
            continue
        x, weight, bias, *_, groups, eps = n.args
        by_channels = _runs_by_channels(x, groups, convolved)
        tags = {key: value for key, value in n.meta.items() if key != "val"}
        with graph.inserting_before(n):
            statistics = graph.call_function(tenon.group_norm_statistics.default, (x, groups, eps, by_channels))
            mean, rstd = (graph.call_function(operator.getitem, (statistics, i)) for i in range(2))
            y = graph.call_function(tenon.group_norm.default, (x, mean, rstd, weight, bias, by_channels))
        with n.meta["val"][0].fake_mode:
            made = tenon.group_norm_statistics(x.meta["val"], groups, eps, by_channels)
        for new, val in ((statistics, made), (mean, made[0]), (rstd, made[1]), (y, n.meta["val"][0])):
            new.meta = tags | {"val": val}
        rng.compute_again(y)
        for same in list(images.aliases_of(results[1])):
            _take_gradients(same, by_channels)
        for i, new in enumerate((y, mean, rstd)):
            for same in list(images.aliases_of(results[i])):
                same.meta["val"] = new.meta["val"]
            results[i].replace_all_uses_with(new)
            graph.erase_node(results[i])
        graph.erase_node(n)


def _take_gradients(mean, by_channels):
    """Replaces the gradients of group norms that read this mean."""
    for u in list(mean.users):
        if u.target is aten.native_group_norm_backward.default:
            *tensors, _, _, _, _, output_mask = u.args  # without N, C, HxW and groups
            u.target, u.args = tenon.group_norm_gradient.default, (*tensors, output_mask, by_channels)


def _runs_by_channels(x, groups, convolved):
    """Whether loops over image x run along the channels, because a group has few of them and channels are innermost, as the library lays out
    the results of convolutions."""
    few = 48  # as in has_narrow_groups() of backends/cpu/cpu.cc
    fake = x.meta["val"]
    each = fake.shape[1] // groups
    innermost = x in convolved or (fake.dim() > 2 and statically_known_true(fake.stride(1) == 1) and not statically_known_true(fake.shape[1] == 1))
    return isinstance(each, int) and each <= few and innermost

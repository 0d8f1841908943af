"""The torch.compile backend "tenon", found by its entry point in the group torch_dynamo_backends.

Dynamo's graph goes through AOTAutograd; an inference graph is partitioned, lowered and compiled here, a training graph
runs in PyTorch, correctly, and is counted. Errors of Tenon never reach the user unless fallback="error" asks for them.
Tested by tests/torch/test_backend.py and test_aot_semantics.py.
"""

import dataclasses
import difflib
import itertools
import logging
import sys
import threading
import time
import uuid

import torch

from tenon import supported

supported.check(torch.__version__)

import torch._dynamo  # noqa: E402
from torch._dynamo.backends import registry
from torch._dynamo.utils import counters
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func

from . import _abi, decomps, door, overlap, packing, refusal, report, reuse, runner, seeds
from .partition import Partition
from .refusal import Refused

log = logging.getLogger("tenon")
_graphs = itertools.count()
FALLBACKS = ("auto", "count", "error")
RNGS = ("torch", "fast")
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
GRAPHS_OF_MODE = {"reduce-overhead": "always", "max-autotune": "always", "max-autotune-no-cudagraphs": "never"}


class OptionError(ValueError):
    pass


class FallbackError(RuntimeError):
    """options={"fallback": "error"}, and something would run in PyTorch."""


@dataclasses.dataclass(frozen=True)
class Options:
    """fallback says what happens to what Tenon cannot take: "auto" runs it in PyTorch and counts it, "count" logs it as
    well (logger "tenon", level INFO), "error" raises. specialize: whether hot kernels are compiled again with their sizes
    as constants, "background" by a thread of low priority, "wait" all of them before they first run; same bits. rng: who draws
    random numbers, "torch", in an order and with results as in eager mode, or "fast", Tenon's kernels, from seeds that
    PyTorch draws: the same distribution, reproducible with torch.manual_seed, but other numbers than eager mode's. Graphs
    that need gradients run in PyTorch and draw there. device_graphs, on a GPU: which programs of several kernels are launched as
    one CUDA graph, "auto", those of small kernels, "always" or "never". verify, on the CPU: so many calls of each program are
    also computed by Tenon's evaluator, slowly, and compared; where they differ PyTorch computes the call, and the log (logger
    "tenon", level ERROR) has the smallest graph that shows it."""

    freeze: bool = False  # on the CPU: pack parameters once; a changed parameter is packed again
    fallback: str = "auto"
    num_threads: int = 0  # 0: as many as PyTorch uses
    specialize: str = "off"
    rng: str = "torch"
    device_graphs: str = "auto"
    verify: int = 0

    @classmethod
    def parse(cls, options):
        options = dict(options or {})
        known = {f.name: type(f.default) for f in dataclasses.fields(cls)}
        for name, value in options.items():
            if name not in known:
                raise OptionError(f"tenon: unknown option {name!r}{_nearest(name, known)}")
            if type(value) is not known[name]:
                raise OptionError(f"tenon: option {name} is {value!r}, where a {known[name].__name__} is expected")
        result = cls(**options)
        for name, choices in (("fallback", FALLBACKS), ("specialize", _abi.SPECIALIZE), ("rng", RNGS),
                              ("device_graphs", _abi.DEVICE_GRAPHS)):
            if (value := getattr(result, name)) not in choices:
                raise OptionError(f"tenon: option {name} is {value!r}{_nearest(value, choices)}")
        for name in ("num_threads", "verify"):
            if (value := getattr(result, name)) < 0:
                raise OptionError(f"tenon: option {name} is {value}, where 0 or more is expected")
        return result


def _nearest(name, known):
    near = difflib.get_close_matches(str(name), list(known), 1, 0.4)
    return (f"; did you mean {near[0]!r}?" if near else "") + f" (known: {', '.join(known)})"


def _tenon(gm, example_inputs, *, mode=None, options=None):
    """The backend. `mode` is one that torch.compile knows; "reduce-overhead" and "max-autotune" ask for
    device_graphs="always", "max-autotune-no-cudagraphs" for "never"."""
    if mode is not None and mode not in MODES:
        raise OptionError(f"tenon: unknown mode {mode!r}{_nearest(mode, MODES)}")
    parsed = Options.parse(options)
    if mode in GRAPHS_OF_MODE:
        parsed = dataclasses.replace(parsed, device_graphs=GRAPHS_OF_MODE[mode])
    return compile_graph(gm, example_inputs, parsed)


def _reset():
    """torch._dynamo.reset() has dropped the compiled functions, and their programs with them; counts are kept."""


_tenon.__name__ = "tenon"
_tenon.reset = _reset
_looked_up = threading.Lock()  # held from PyTorch's first look-up of the backend on
MOST_WAIT = 1000  # milliseconds for that look-up to end


def __getattr__(name):
    """`tenon`, the backend. PyTorch's look-up of a name may run in several threads at once; each of them then loads the entry
    point and registers what it gets, of which only the first may: the others get None, which registers nothing, and
    find in the registry what the first has put there."""
    if name != "tenon":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    code, frame = registry.lookup_backend.__code__, sys._getframe(1)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    if frame is None or _looked_up.acquire(blocking=False):
        return _tenon
    for _ in range(MOST_WAIT):
        if "tenon" in registry._COMPILER_FNS:
            return None
        time.sleep(0.001)
    return _tenon


class _Again(Exception):
    """The graph has to be traced once more: it needs gradients, or none, against what its inputs said."""


class _Whole(Exception):
    """(record, why): Tenon takes nothing of an inference graph."""


class _Overlap(Exception):
    """Inputs that share memory, one of which the graph writes to."""


def compile_graph(gm, example_inputs, options, records=None):
    _abi.library()  # a missing library is the user's to know, not a fallback
    saving = _saving()
    now = dataclasses.replace(options, freeze=False) if saving else options  # what is saved packs at its first call
    real = _real_tensors(gm) if now.freeze else {}
    training = torch.is_grad_enabled() and any(getattr(t, "requires_grad", False) for t in example_inputs)
    own = [t for tensors in (gm.named_parameters, gm.named_buffers) for _, t in tensors(remove_duplicate=False)]  # inputs before the others
    written, raised, noted = set(), [], []

    def note(nodes):
        noted.append(report.Record(f"graph{next(_graphs)}", nodes))
        if records is not None:
            records.append(noted[-1])
        return noted[-1]

    def compiler(kind):
        def compile(graph, inputs):
            try:
                return compile_one(graph)
            except Exception as e:
                raised.append(e)
                raise

        def compile_one(graph):
            if kind == "forward" and not training or kind is None and training and decomps.would_change(graph):
                raise _Again
            if kind != "backward":
                written.update(_written(len(own) + len(example_inputs)))
            record = note(sum(n.op == "call_function" for n in graph.graph.nodes))
            start = report.clock()
            function = _compile(graph, now, real, record, kind, saving)
            if saving:
                function = _savable(function, options, record)
            record.seconds = report.clock() - start
            function._tenon_record = record  # lives as long as the function
            return function

        return compile

    def trace(table):
        tag = f"tenon {uuid.uuid4()}" if saving else torch.compiler.config.cache_key_tag
        with torch.compiler.config.patch(cache_key_tag=tag):  # nothing of an earlier run may come out of PyTorch's own cache
            return aot_module_simplified(
                gm, example_inputs, fw_compiler=compiler("forward"), bw_compiler=_untraced(compiler("backward")),
                inference_compiler=compiler(None), decompositions=table, keep_inference_input_mutations=True)

    # As torch._dynamo.backends.common.aot_autograd does, which would import a second's worth of Inductor: by this count DDP
    # knows that a bucket went through AOTAutograd.
    counters["aot_autograd"]["total"] += 1
    try:
        try:
            compiled = trace(None if training else decomps.table())  # PyTorch runs whole operators faster than their parts
        except _Again:
            training = not training
            compiled = trace(None if training else decomps.table())
        except Exception as e:
            if training or e in raised or isinstance(e, refusal.STEERING):
                raise
            compiled = trace(None)  # our decompositions are no reason to fail
    except _Overlap as e:
        return _in_pytorch(gm, options, note(len(gm.graph.nodes)), str(e), saving)
    except _Whole as e:
        return _in_pytorch(gm, options, *e.args, saving)  # not the traced one, whose operators AOTAutograd may have taken apart
    except Exception as e:
        if saving or e in raised or isinstance(e, refusal.STEERING):
            raise
        return _in_pytorch(gm, options, note(len(gm.graph.nodes)), f"AOTAutograd cannot trace it: {type(e).__name__}: {e}".split("\n")[0], saving)
    counters["aot_autograd"]["ok"] += 1
    if saving:
        from . import saved

        return saved.Saved(compiled)
    return overlap.guarded(compiled, gm, own, example_inputs, written, refusal.of_calls(noted[-1], options.fallback))


def _untraced(compile):
    """A compiler of backward graphs that compiled autograd does not trace into, nor into what it makes."""
    def compile_untraced(graph, inputs):
        return torch._dynamo.disable(torch._dynamo.disable(compile)(graph, inputs))
    return compile_untraced


def _written(count):
    """Returns the numbers of the inputs, out of so many, that the graph AOTAutograd compiles next writes to."""
    inputs = torch._guards.TracingContext.get().fw_metadata.input_info
    written = {i for i, about in enumerate(inputs) if about.mutates_data}
    if len(inputs) != count:  # it has put inputs together that overlap
        raise _Overlap(overlap.WHY)
    return written


def _in_pytorch(gm, options, record, why, saving):
    """Dynamo's graph as it stands, in place operations included: right whatever its inputs share."""
    record.fallback("graph", "the whole graph", why)
    record.eager = True
    record.close()
    _log(options, record)
    if saving or options.fallback == "error":
        raise FallbackError(f"tenon: the whole graph would run in PyTorch: {why}")

    def function(*args):
        return gm(*args)

    function._tenon_record = record
    return function


def _log(options, record):
    for node, op, why in record.fallbacks:
        log.log(logging.INFO if options.fallback == "count" else logging.DEBUG, "%s: %s (%s) runs in PyTorch: %s",
                record.name, op, node, why)


def _saving():
    """Whether this is torch.compile(...).aot_compile: AOTAutograd keeps a form of what it makes that can be saved."""
    config = torch._functorch.config
    return config.bundled_autograd_cache and config.force_autograd_cache


def _savable(function, options, record):
    from . import saved

    if record.compiled is None:
        why = record.fallbacks[0][2] if record.fallbacks else "the graph runs in PyTorch"
        raise saved.SavedError(f"tenon: a graph that runs in PyTorch cannot be saved: {why}")
    if options.freeze and record.parameters:
        return saved.Function(data=saved.dump(record.compiled, options, record, record.parameters))
    return saved.Function(function, record.compiled, options)


def _real_tensors(gm):
    """Graph input number -> the real tensor, for inputs that Dynamo holds to be static (parameters, buffers)."""
    result = {}
    for number, n in enumerate(n for n in gm.graph.nodes if n.op == "placeholder"):
        example = getattr(n.meta.get("grapharg"), "example", None)
        if isinstance(example, torch.Tensor):
            result[number] = example
    return result


def _compile(gm, options, real, record, training, saving):
    function = make_boxed_func(gm.forward)
    try:
        if training == "backward":
            return function  # counted with its forward graph
        if training:
            raise Refused("gradients are needed: training graphs run in PyTorch (compile under torch.no_grad())")
        function, record.compiled = _build(gm, options, real, record)
    except Exception as e:
        why = refusal.sentence(e)
        if training is None and not saving:
            raise _Whole(record, why) from e
        record.fallback("graph", "the whole graph", why)
        record.eager = True
    record.close()
    _log(options, record)
    if options.fallback == "error" and record.fallbacks:
        node, op, why = record.fallbacks[0]
        raise FallbackError(f"tenon: {op} ({node}) would run in PyTorch: {why}")
    return function


def _build(gm, options, real, record):
    """Partitions and compiles; what the library refuses is banned from Tenon, and the rest is tried again."""
    banned, planted = {}, seeds.plant(gm) if options.rng == "fast" else None
    while True:
        partition = Partition(gm, banned=banned, seeds=planted)
        static = _static_inputs(partition)
        freezes = options.freeze and partition.place == _abi.CPU
        frozen = {s: _frozen_inputs(s, static, real, record) if freezes else {} for s in partition.segments}
        uses = _living(partition, static, frozen, options)
        for number, segment in enumerate(partition.segments):
            name = f"{record.name}_{number}" if len(partition.segments) > 1 else record.name
            try:
                if segment not in uses:
                    uses[segment] = _program(partition, segment, name, static, frozen[segment], options)
            except Exception as e:
                refused = _refused(partition, segment, name, static, refusal.sentence(e))
                if not refused.keys() - banned.keys():
                    raise
                banned.update(refused)
                log.debug("%s: %s\n%s", name, e, partition.text(segment, name, static))
                break
        else:
            break
    for n, why in partition.fallbacks.items():
        record.fallback(n.name, str(n.target), why)
    function = runner.build(partition, {segment: uses[segment] for segment in partition.segments}, record.name,
                            refusal.of_calls(record, options.fallback))
    _, compiled = function
    order = [n for n in partition.nodes if n.op == "placeholder"]
    record.parameters = {order.index(n) for n, number in static.items() if number is not None}
    made = [program for program in compiled.programs() if program.last_words is None]
    for program in made:
        report.born(program)
    reuse.remember(compiled, made)
    return function


def _refused(partition, segment, name, static, why):
    """Node name -> sentence: the nodes that no back end of the device takes; where the library does not even read the
    segment's text, those that it does not read by themselves; or else all of them."""
    try:
        values = _abi.refused(partition.text(segment, name, static), partition.place)
    except Exception:
        values = {}
        for n in segment.nodes:
            if lines := partition.lowered[n].lines:
                try:
                    _abi.refused(partition.text_of(n, name), partition.place)
                except Exception as e:
                    values[lines[0].result.name] = refusal.sentence(e).removeprefix("Tenon's library: ")
    refused = {n.name: f"Tenon's library: {values[line.result.name]}" for n in segment.nodes
               for line in partition.lowered[n].lines if line.result.name in values}
    return refused or {n.name: why for n in (*segment.nodes, *segment.outputs)}


def _living(partition, static, frozen, options):
    """Segments that programs of other functions can run -> Use. Programs with packed parameters are taken together or
    not at all: packing anew concerns all of a function's programs."""
    uses = {}
    for segment in partition.segments:
        template = _template(partition, segment, static, frozen[segment], options)
        if (found := reuse.find(template)) is not None:
            uses[segment] = runner.Use(*found, template, frozen[segment], _numbers(segment, frozen[segment], len(found[1])))
    packed = {segment for segment in partition.segments if frozen[segment]}
    if packed <= set(uses) and packing.packed_together([uses[s] for s in partition.segments if s in packed])[0]:
        return uses
    return {segment: use for segment, use in uses.items() if segment not in packed}


def _template(partition, segment, static, frozen, options):
    tensors = list(zip(_numbers(segment, frozen, 0), frozen.values()))
    return reuse.Template(partition, segment, static, tensors,
                          (options.num_threads, options.specialize, partition.place, options.device_graphs, options.verify))


def _numbers(segment, frozen, symbols):
    """The graph input numbers of the frozen nodes."""
    return [symbols + i for i, (n, _) in enumerate(segment.inputs) if n in frozen]


def _static_inputs(partition):
    """Input nodes whose tensors are the same object call after call: parameters, buffers, and the graph's constants."""
    context = torch._guards.TracingContext.try_get()
    indices = set(getattr(getattr(context, "fw_metadata", None), "static_input_indices", None) or ())
    mutated = {destination for destination, _ in partition.copies}
    placeholders = [n for n in partition.nodes if n.op == "placeholder"]
    result = {n: _input_number(n, i) for i, n in enumerate(placeholders) if n not in mutated}
    result = {n: i for n, i in result.items() if i in indices}
    return result | {n: None for n in partition.nodes if n.op == "get_attr"}


def _input_number(n, position):
    return getattr(n.meta.get("desc"), "idx", position)


def _frozen_inputs(segment, static, real, record):
    """Input nodes of the segment that can be packed -> their tensors, in the order of the inputs. The library packs what is dense
    in some order of its axes and not empty; all else stays an input."""
    frozen = {}
    for n, _ in segment.inputs:
        if n in static:
            tensor = _constant(n) if static[n] is None else real.get(static[n])
            if tensor is None or type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
                continue
            if tensor.is_inference():
                record.notes.append(f"{n.name} is an inference tensor: it has no version, so it is not frozen")
            elif tuple(tensor.shape) == tuple(n.meta["val"].shape) and tensor.numel() and torch.ops.aten.is_non_overlapping_and_dense(tensor):
                frozen[n] = tensor
    return frozen


def _program(partition, segment, name, static, frozen, options):
    numbers = _numbers(segment, frozen, len(segment.symbols))
    params = packing.Params(len(segment.symbols) + len(segment.inputs), list(zip(numbers, frozen.values())))
    text = partition.text(segment, name, static)
    program = _abi.Program(text, bool(frozen), options.num_threads, params.addresses, options.specialize,
                           partition.place, door.context(partition.place), options.device_graphs,
                           options.verify if partition.place == _abi.CPU else 0)
    program.template = _template(partition, segment, static, frozen, options)
    return runner.Use(program, list(segment.symbols), program.template, frozen, numbers)


def _constant(n):
    return getattr(n.graph.owning_module, n.target)

"""Compiles Dynamo's graph into a function.

AOTAutograd traces Dynamo's graph and, if it needs gradients, cuts it into a forward and a backward graph (training.py). Each
graph is partitioned, lowered and compiled; the backward graph when the first backward pass runs. Errors of Tenon reach the
user only with options={"fallback": "error"}.
Tested by tests/torch/test_backend.py, test_aot_semantics.py, test_training.py, test_training_faults.py and test_distributed.py.
"""

import concurrent.futures
import dataclasses
import functools
import itertools
import logging
import uuid

import torch
import torch._dynamo
from torch._dynamo import symbolic_convert
from torch._dynamo.exc import exceptions_allowed_to_be_fallback
from torch._dynamo.utils import counters
from torch._functorch._aot_autograd.schemas import OutputType
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func
from torch._functorch.partitioners import default_partition

from .. import _abi, report
from . import codegen, decompositions, function_cache, list_inputs, program_cache, rng, serialization, training
from .garbage import without_collections
from .inputs import Inputs
from .lowering import pairs
from .partition import Partition
from .runtime import marshal, overlap, packing, refusal, runner
from .runtime.refusal import Refused
from .whole import indexing, recurrent, tracing

log = logging.getLogger("tenon")
_graphs = itertools.count()


class FallbackError(RuntimeError):
    """PyTorch would run a part of a graph, and options={"fallback": "error"} forbids it."""


class _Whole(Exception):
    """(why, record): Tenon takes no node of an inference graph or of a forward graph."""


class _Overlap(Exception):
    """Two inputs share memory, and the graph writes to one of them."""


def compile_graph(gm, example_inputs, options, records=None):
    """The function of Dynamo's graph gm. records: a list that gets the report.Record of each of its graphs."""
    if list_inputs.any_list(example_inputs):
        return list_inputs.compiled(gm, example_inputs, functools.partial(compile_graph, options=options, records=records))
    _abi.library()  # a missing library is an error that the user sees, not a fallback
    recurrent.keep_whole(gm)
    indexing.keep_whole(gm)
    compilation = _Compilation(gm, example_inputs, options, records)
    # DDP reads this count to learn that a bucket went through AOTAutograd. torch._dynamo.backends.common.aot_autograd counts
    # too, but its import takes a second, because it imports Inductor.
    counters["aot_autograd"]["total"] += 1
    try:
        try:
            with tracing.of_graphs():
                compiled = compilation.trace(decompositions.table())
        except Exception as e:
            if compilation.raised(e):
                raise
            compilation.without_table = f"traced without Tenon's decompositions: {type(e).__name__}: {e}".split("\n")[0]
            compiled = compilation.trace(None)  # the decompositions or the partitioner may have failed
    except _Overlap as e:
        return compilation.in_pytorch(str(e))
    except _Whole as e:
        return compilation.in_pytorch(*e.args)  # runs Dynamo's graph: AOTAutograd may have decomposed operators in its own
    except Exception as e:
        if compilation.saving or compilation.raised(e):
            raise
        function = compilation.in_pytorch(f"AOTAutograd cannot trace it: {type(e).__name__}: {e}".split("\n")[0])
        if records is None and _is_graph_break(e):
            raise
        return function
    counters["aot_autograd"]["ok"] += 1
    return compilation.finished(compiled)


def _is_graph_break(error):
    """Whether Dynamo, which calls the backend, breaks the graph at this error. It runs the frame without guards then. The guards of a graph that reads
    the value of a tensor compare this value, so each value would compile anew."""
    tracer = getattr(symbolic_convert.tls, "current_tx", None)
    return (isinstance(error, exceptions_allowed_to_be_fallback) and tracer is not None and not tracer.one_graph
            and not tracer.error_on_graph_break and not tracer.output.has_user_defined_allowed_in_graph)


class _Compilation:
    """The way of one graph of Dynamo through AOTAutograd, which calls the compilers."""

    def __init__(self, gm, example_inputs, options, records):
        self.gm, self.example_inputs, self.options, self.records = gm, example_inputs, options, records
        self.saving = _saving()
        # A saved function packs at its first call, and measures nothing.
        self.now = dataclasses.replace(options, freeze=False, benchmark=False) if self.saving else options
        self.inputs = Inputs(gm, example_inputs, self.now.freeze)
        self.keeping = (records is None and not self.saving and not self.inputs.has_subclasses
                        and function_cache.serves(gm, example_inputs, self.now))
        self.written = set()  # the indices of the inputs that the graph writes to
        self.errors = []      # the exceptions that the compilers raised
        self.record = None    # the Record of the inference or forward graph
        self.saved = []       # the Saved of the forward graph, if somebody asks
        self.without_table = None  # why AOTAutograd traces without a table of decompositions

    def raised(self, error):
        """Whether the user has to see an error."""
        return error in self.errors or isinstance(error, refusal.STEERING)

    def note(self, nodes, kind="inference"):
        """Makes the Record of a graph. kind: as in _compile."""
        record = report.Record(f"{self.record.name}_backward" if kind == "backward" else f"graph{next(_graphs)}", nodes)
        if self.without_table:
            record.notes.append(self.without_table)
            log.info("%s: %s", record.name, self.without_table)
        if kind != "backward":
            self.record = record
        if self.records is not None:
            self.records.append(record)
        return record

    def trace(self, table):
        """AOTAutograd's function. table: of decompositions, or None for neither decompositions nor a partitioner of ours."""
        depth = _transforms()
        try:
            return self._traced(table)
        except Exception:
            while _transforms() > depth:  # that the graph has entered, and not left because of the error
                torch._C._functorch.pop_dynamic_layer_stack()
            raise

    def _traced(self, table):
        forward, backward, inference = self._compiler("forward"), _untraced(self._compiler("backward")), self._compiler("inference")
        partition = default_partition
        if table is not None:
            partition = functools.partial(training.partition, options=self.now, tell=self.saved.append if self.records is not None else None)
        if self.keeping:
            packs = [number for number, tensor in self.inputs.real.items() if packing.can_pack(tensor)]
            return function_cache.aot_module(self.gm, self.example_inputs, (dataclasses.astuple(self.now), packs), forward, backward, inference, table,
                                             partition, self._loaded)
        tag = f"tenon {uuid.uuid4()}" if self.saving else torch.compiler.config.cache_key_tag
        with torch.compiler.config.patch(cache_key_tag=tag):  # PyTorch's cache must not return the result of an earlier run
            return aot_module_simplified(
                self.gm, self.example_inputs, fw_compiler=forward, bw_compiler=backward, inference_compiler=inference, decompositions=table,
                partition_fn=partition, keep_inference_input_mutations=True)

    def _compiler(self, kind):
        def compile(graph, inputs):
            try:
                return self._compiled(graph, kind)
            except Exception as e:
                self.errors.append(e)
                raise

        return compile

    def _compiled(self, graph, kind):
        metadata, donated, regenerated = torch._guards.TracingContext.get().fw_metadata, (), ()
        if kind == "backward":
            # If the graph has tokens of effects, PyTorch's indices of donated values are off by their number.
            donated = () if metadata.tokens else metadata.bw_donated_idxs or ()
            metadata.bw_donated_idxs = []  # makes retain_graph=True no error
        else:
            serialization.leave_views_out_of_pickles(metadata)
            regenerated = _regenerated(metadata)
            self.inputs.describe(graph, metadata)
            if self.inputs.merged:
                raise _Overlap(overlap.WHY)
            self.written.update(i for i, about in enumerate(metadata.input_info) if about.mutates_data)
            if kind == "forward" and self.written:
                tokens = len(metadata.tokens)  # stand before the inputs and before the results
                training.copy_written_inputs(graph, [tokens + i for i in self.written], tokens + metadata.num_forward)
        record = self.note(sum(n.op == "call_function" for n in graph.graph.nodes), kind)
        record.saved = self.saved[-1] if kind == "forward" and self.saved else None
        start = report.clock()
        with without_collections():
            function = _compile(graph, self.now, self.inputs, record, kind, self.saving, donated, regenerated)
            if self.saving:
                function = _savable(function, self.options, record)
            elif self.keeping:
                function.__wrapped__ = serialization.Kept(record, self.now, kind, self.written)
        record.seconds = report.clock() - start
        function._tenon_record = record  # lives as long as the function
        return function

    def _loaded(self, data):
        """The Record of a function that the cache had. data: as from serialization.dump."""
        self.written.update(data["written"])
        record = serialization.noted(self.note(data["nodes"], data["kind"]), data)
        _log(self.options, record)
        return record

    def in_pytorch(self, why, record=None):
        """A function that runs Dynamo's graph. Its operators write in place, so its results are right even if inputs share memory."""
        record = record or self.note(len(self.gm.graph.nodes))
        record.fallback("graph", "the whole graph", why)
        record.eager = True
        record.close()
        _log(self.options, record)
        if self.saving or self.options.fallback == "error":
            raise FallbackError(f"tenon: the whole graph would run in PyTorch: {why}")
        gm = self.gm

        def function(*args):
            return gm(*args)

        function._tenon_record = record
        return function

    def finished(self, compiled):
        if self.saving:
            return serialization.SerializedFunction(compiled)
        refused = refusal.of_calls(self.record, self.options.fallback)
        return overlap.guarded(compiled, self.gm, self.inputs.own, self.example_inputs, self.inputs.outer(self.written), refused)


def _transforms():
    """How many transforms of torch.func, such as grad and vmap, are active in this thread."""
    return len(torch._C._functorch.get_interpreter_stack() or ())


def _untraced(compile):
    """Wraps a compiler of backward graphs so that compiled autograd traces neither into it nor into its functions."""
    def compile_untraced(graph, inputs):
        return torch._dynamo.disable(torch._dynamo.disable(compile)(graph, inputs))
    return compile_untraced


def _log(options, record):
    for node, op, why in record.fallbacks:
        log.log(logging.INFO if options.fallback == "count" else logging.DEBUG, "%s: %s (%s) runs in PyTorch: %s",
                record.name, op, node, why)


def _saving():
    """Whether this is torch.compile(...).aot_compile, for which AOTAutograd has to return a function that can be saved."""
    config = torch._functorch.config
    return config.bundled_autograd_cache and config.force_autograd_cache


def _savable(function, options, record):
    if record.compiled is None:
        why = record.fallbacks[0][2] if record.fallbacks else "the graph runs in PyTorch"
        raise serialization.SerializationError(f"tenon: a graph that runs in PyTorch cannot be saved: {why}")
    if options.freeze and record.parameters:
        return serialization.Function(data=serialization.dump(record.compiled, options, record, record.parameters))
    return serialization.Function(function, record.compiled, options)


def _regenerated(metadata):
    """The positions of the results that AOTAutograd replaces by views of inputs that it makes from their sizes, strides and storage offsets."""
    first = len(metadata.tokens) + metadata.num_mutated_inp_runtime_indices
    return [first + i for i, about in enumerate(metadata.output_info) if about.output_type is OutputType.alias_of_input]


def _compile(gm, options, inputs, record, kind, saving, donated, regenerated):
    """kind: "inference", "forward" or "backward". A forward graph never freezes parameters, because a step of training changes them.
    donated: indices of the saved values that the backward graph may overwrite. regenerated: see _regenerated()."""
    function = make_boxed_func(gm.forward)
    try:
        if kind != "inference":
            if saving:
                raise Refused("gradients are needed: only graphs without gradients can be saved (compile under torch.no_grad())")
            options = dataclasses.replace(options, freeze=False)
        function, record.compiled = _build(gm, options, inputs, record, kind, donated, regenerated)
    except Exception as e:
        why = refusal.sentence(e)
        if kind != "backward" and not saving:
            raise _Whole(why, record) from e
        record.fallback("graph", "the whole graph", why)
        record.eager = True
    record.close()
    _log(options, record)
    if options.fallback == "error" and record.fallbacks:
        node, op, why = record.fallbacks[0]
        raise FallbackError(f"tenon: {op} ({node}) would run in PyTorch: {why}")
    return function


def _build(gm, options, inputs, record, kind, donated, regenerated):
    """Partitions and compiles the graph. If the library refuses nodes, PyTorch runs these, and the graph is partitioned again."""
    pairs.rewrite(gm)
    banned, seeds = {}, rng.plant(gm, options.rng)
    while True:
        partition = Partition(gm, banned=banned, seeds=seeds, donated=donated, regenerated=regenerated)
        if kind != "inference" and partition.place != _abi.CPU:
            raise Refused("training graphs on a GPU run in PyTorch")
        static = _static_inputs(partition, kind, inputs)
        freezes = options.freeze and partition.place == _abi.CPU
        frozen = {s: _frozen_inputs(s, static, inputs, record) if freezes else {} for s in partition.segments}
        templates = {s: _template(partition, s, static, frozen[s], options) for s in partition.segments}
        uses = _uses(partition, templates, frozen)
        names = {s: f"{record.name}_{i}" if len(uses) > 1 else record.name for i, s in enumerate(uses)}
        with concurrent.futures.ThreadPoolExecutor(1) as thread:  # the library compiles there while Python writes the function
            making = {s: _start(thread if partition.place == _abi.CPU else None, *_program(partition, s, names[s], static, use, options))
                      for s, use in uses.items() if use.program is None}
            writer = codegen.Writer(partition, uses, options.benchmark and partition.place == _abi.CPU)
            writer.write()
            for template in templates.values():
                template.finish()
        failed = next(((s, future.exception()) for s, future in making.items() if future.exception() is not None), None)
        if failed is None:
            break
        segment, e = failed
        if not isinstance(e, Exception):
            raise e
        refused = _refused(partition, segment, names[segment], static, refusal.sentence(e))
        if not refused.keys() - banned.keys():
            raise e
        banned.update(refused)
        log.debug("%s: %s\n%s", names[segment], e, partition.text(segment, names[segment], static))
    for segment, future in making.items():
        uses[segment].program = future.result()
        uses[segment].program.template = uses[segment].template
    for n, why in partition.fallbacks.items():
        record.fallback(n.name, str(n.target), why)
    function = codegen.build(writer, record.name, refusal.of_calls(record, options.fallback))
    _, compiled = function
    places = (n for n in partition.nodes if n.op == "placeholder")
    record.parameters = {i for i, n in enumerate(places) if static.get(n) is not None}
    made = [program for program in compiled.programs() if program.on_release is None]
    for program in made:
        report.track(program)
    program_cache.remember(compiled, made)
    return function


def _refused(partition, segment, name, static, why):
    """Node name -> reason, for the nodes that no back end of the device takes. If the library cannot parse the text of the
    segment, it gets each node by itself, and the result has the nodes that it cannot parse. If this finds no node, the result
    has all nodes of the segment."""
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
    return refused or {n.name: why for n in (*segment.nodes, *segment.outputs, *(source for _, source in segment.updates))}


def _uses(partition, templates, frozen):
    """Segment -> Use, in the order of the segments. The program of a Use is an existing one of another function that computes the segment,
    or None. Programs with packed parameters are reused all together or not at all, because a function repacks the parameters of
    all its programs at once."""
    def use(segment, program, symbols):
        return runner.Use(program, symbols, templates[segment], frozen[segment], _numbers(segment, frozen[segment], len(symbols)))

    uses = {s: use(s, *(program_cache.find(template) or (None, list(s.symbols)))) for s, template in templates.items()}
    packed = [u for u in uses.values() if u.frozen]
    if any(u.program is None for u in packed) or not packing.packed_together(packed)[0]:
        uses |= {s: use(s, None, list(s.symbols)) for s, u in uses.items() if u.frozen}
    return uses


def _start(thread, function, *arguments):
    """Calls a function and returns its Future. thread: the executor that calls it. None: the caller's own thread calls it, because PyTorch
    allocates a GPU's memory on the current device of the calling thread."""
    if thread:
        try:
            return thread.submit(function, *arguments)
        except RuntimeError:
            pass  # no thread: the system refuses it, or Python is about to exit
    future = concurrent.futures.Future()
    try:
        future.set_result(function(*arguments))
    except Exception as e:
        future.set_exception(e)
    return future


def _template(partition, segment, static, frozen, options):
    tensors = list(zip(_numbers(segment, frozen, 0), frozen.values()))
    return program_cache.Template(partition, segment, static, tensors,
                          (options.num_threads, partition.place, options.device_graphs, options.verify))


def _numbers(segment, frozen, symbols):
    """The indices of the frozen nodes among the program's inputs. symbols: how many symbols come before the tensors."""
    return [symbols + i for i, (n, _) in enumerate(segment.inputs) if n in frozen]


def _static_inputs(partition, kind, inputs):
    """Input node -> index of the graph input, or None for a constant of the graph: the nodes whose tensor is the same object in
    every call, which are parameters, buffers and constants."""
    context = torch._guards.TracingContext.try_get()
    indices = set(getattr(getattr(context, "fw_metadata", None), "static_input_indices", None) or ())
    mutated = {destination for destination, _ in (*partition.copies, *partition.replaced)}
    placeholders = [n for n in partition.nodes if n.op == "placeholder"]
    result = {n: inputs.number(n, None if kind == "backward" else i) for i, n in enumerate(placeholders) if n not in mutated}
    result = {n: i for n, i in result.items() if i in indices}
    return result | {n: None for n in partition.nodes if n.op == "get_attr"}


def _frozen_inputs(segment, static, inputs, record):
    """Input node -> its tensor, for the inputs that can be packed, in the order of the inputs."""
    frozen = {}
    for n, _ in segment.inputs:
        if n in static:
            tensor = _constant(n) if static[n] is None else inputs.tensor(static[n])
            if tensor is None:
                continue
            if tensor.is_inference():
                record.notes.append(f"{n.name} is an inference tensor: it has no version, so it is not frozen")
            elif tuple(tensor.shape) == tuple(n.meta["val"].shape) and packing.can_pack(tensor):
                frozen[n] = tensor
    return frozen


def _program(partition, segment, name, static, use, options):
    """Returns the function that makes the program of a segment, and its arguments."""
    params = packing.Params(len(segment.symbols) + len(segment.inputs), list(zip(use.numbers, use.frozen.values())))
    return (program_cache.program, partition.text(segment, name, static), params if use.frozen else None, options.num_threads,
            partition.place, options.device_graphs, options.verify)


def _constant(n):
    return getattr(n.graph.owning_module, n.target)

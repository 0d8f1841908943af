"""Keeps compiled functions on disk, in PyTorch's cache of AOTAutograd: another process traces and lowers no graph that one has compiled.

An entry has PyTorch's wrappers and one Function (serialization.py) for each graph. Its key is a hash of Dynamo's graph, the
metadata of the inputs, the settings that tracing reads, the options, the build of Tenon and the version of PyTorch. The key that
PyTorch computes for Inductor also has Inductor's settings and so imports its code generators, which takes a second; so this
module does the work of aot_module_simplified with a key of its own. PyTorch's checks of what may be cached apply, and its
settings: TORCHINDUCTOR_CACHE_DIR, TORCHINDUCTOR_AUTOGRAD_CACHE=0, TORCHINDUCTOR_FORCE_DISABLE_CACHES=1, torch.compiler.save_cache_artifacts().
Tested by tests/torch/test_function_cache.py.
"""

import contextlib
import dataclasses
import functools
import hashlib
import json
import logging
import os
import time
from pathlib import Path

import torch
from torch._dynamo.source import LocalSource
from torch._dynamo.utils import counters
from torch._functorch import aot_autograd, config
from torch._functorch._aot_autograd import autograd_cache
from torch._functorch._aot_autograd.schemas import AOTAutogradCacheInfo

from .. import _abi
from .garbage import without_collections

log = logging.getLogger("tenon")
_cache = autograd_cache.AOTAutogradCache


def serves(gm, example_inputs, options):
    """Whether the function of a graph may be in the cache."""
    if os.environ.get("TENON_CACHE", "on") == "off" or not autograd_cache.should_use_local_autograd_cache():
        return False
    if not isinstance(gm, torch.fx.GraphModule) or options.benchmark:
        return False
    return all(t.device.type == "cpu" for t in (*example_inputs, *gm.state_dict().values()) if isinstance(t, torch.Tensor))


def aot_module(gm, example_inputs, options, fw_compiler, bw_compiler, inference_compiler, decompositions, partition_fn, loaded):
    """Like aot_module_simplified(..., keep_inference_input_mutations=True), but it first looks for the function in the cache, and
    else stores it. The compilers return functions whose __wrapped__ is a serialization.Kept. If the function is to be stored, the
    backward graph is compiled with the forward graph. options: what else decides about the function, to be pickled; loaded:
    Function.post_compile calls it."""
    with contextlib.ExitStack() as stack, config.patch(bundled_autograd_cache=True):
        functional, own, _, _, fakes, descriptions, aot_config, mode, env, _, _, positions = aot_autograd.prepare_aot_module_simplified(
            gm, example_inputs, None, decompositions, True, False, flatten=False)
        key = _key(gm, fakes, aot_config, options)
        compiled = _find(key, fakes, aot_config, loaded)
        if compiled is None:
            if key is not None:
                stack.enter_context(_guards_in_parentheses(env))
                info = AOTAutogradCacheInfo(key, time.time_ns(), forward_symints=_cache._filter_backed_symints(fakes))
                aot_config = dataclasses.replace(aot_config, cache_info=info, force_non_lazy_backward_lowering=True)
            stack.enter_context(torch._dynamo.compiled_autograd._disable())
            state = aot_autograd.create_aot_state(stack, functional, fakes, descriptions, aot_config, mode, env)
            state.fw_metadata.act_input_indices = positions
            graph = aot_autograd.aot_stage1_graph_capture(state, functional)
            compiled, _ = aot_autograd.aot_stage2_compile(state, graph, partition_fn, fw_compiler, bw_compiler, inference_compiler)

    def forward(*args):
        return compiled([*own, *args])

    return forward


@contextlib.contextmanager
def _guards_in_parentheses(env):
    """PyTorch 2.13 joins the guards of an entry by "and" without parentheses, so an entry one of whose guards has an "or" serves sizes that
    violate others."""

    def joined(placeholders, *, guards=None, ignore_static=True):
        names = [LocalSource(f"t{i}") for i in range(len(placeholders))]
        return " and ".join(f"({g})" for g in env.produce_guards(placeholders, names, guards=guards, ignore_static=ignore_static)) or None

    if env is None:  # no input has symbolic sizes
        yield
        return
    env.produce_guards_expression = joined
    try:
        yield
    finally:
        del env.produce_guards_expression


def _find(key, fakes, aot_config, loaded):
    """The function of an entry, or None."""
    if key is None:
        counters["aot_autograd"]["autograd_cache_bypass"] += 1
        return None
    try:
        with without_collections():
            found = _cache._lookup(key, True, False, fakes, {}, aot_config)
            function = found and found[0].wrap_post_compile(fakes, aot_config, {"loaded": loaded})
    except Exception as e:  # the function is then compiled
        log.debug("a compiled function cannot be read from the cache: %s: %s", type(e).__name__, e, exc_info=e)
        function = None
    counters["aot_autograd"]["autograd_cache_hit" if function else "autograd_cache_miss"] += 1
    return function


class _Details(autograd_cache.AOTAutogradCacheDetails):
    """A key is a hash of these attributes."""

    def _init_fx_graph_hash_details(self, gm, example_inputs, fx_config):
        autograd_cache.FxGraphCache._check_can_cache(gm, example_inputs, fx_config)
        self.gm, self.example_inputs, self.default_dtype = gm, example_inputs, torch.get_default_dtype()


class _Pickler(autograd_cache.AOTAutogradCachePickler):
    """Hashes without the warning that PyTorch's get_hash logs if something cannot be pickled."""

    def hash(self, details):
        self.dump(details)
        return hashlib.sha256(self._stream.getvalue()).hexdigest()


def _key(gm, fakes, aot_config, options):
    """The key of a function, or None if it may not be in the cache."""
    try:
        with autograd_cache.sanitize_gm_for_cache(gm):
            autograd_cache.check_cacheable(gm)
            details = _Details(gm, fakes, aot_config, {})
            details.tenon = (_version(), torch.__version__, torch.version.git_version, torch.compiler.config.cache_key_tag,
                             options)
            return "tenon_" + _Pickler(gm).hash(details)
    except Exception as e:
        log.debug("a function is not in the cache: %s: %s", type(e).__name__, e)
        return None


@functools.cache
def _version():
    """The build of the library, whose gradients of rows are in the functions, and a hash of this package's source."""
    files = sorted(Path(__file__).parents[1].rglob("*.py"))
    source = hashlib.sha256(json.dumps([(f.name, f.read_text()) for f in files]).encode()).hexdigest()
    version_and_build = _abi.library().tenon_build_info().decode().splitlines()[:2]
    return version_and_build, source

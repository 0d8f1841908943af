"""Graphs of the steps of a model: `--from-explain MODULE:NAME`. Tested by tests/torch/test_peers.py."""

import importlib
import importlib.util
import sys
from pathlib import Path

import torch

from ..explain import explain


def load(place):
    """The object that "package.module:name" or "path/to/file.py:name" names."""
    module, _, name = place.rpartition(":")
    if not module:
        sys.exit(f"--from-explain {place}: expected MODULE:NAME or FILE.py:NAME")
    try:
        if module.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(module).stem, module)
            loaded = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(loaded)
        else:
            loaded = importlib.import_module(module)
        return getattr(loaded, name)
    except (ImportError, AttributeError, FileNotFoundError) as e:
        sys.exit(f"--from-explain {place}: {e}")


def write_cases(place, directory):
    """Compiles the model, writes a file per different step and returns the paths."""
    made = load(place)()
    if not isinstance(made, tuple) or len(made) != 2 or not isinstance(made[1], tuple):
        sys.exit(f"--from-explain {place}: it returns {type(made).__name__}, not a model and a tuple of its arguments")
    model, arguments = made
    with torch.no_grad():
        report = explain(model, arguments, {}, None)
    paths = report.save_steps(directory)
    if not paths:
        sys.exit(f"--from-explain {place}: no graph of the model runs in Tenon")
    return [str(p) for p in paths]

"""What is measured against eager: a name, and how `torch.compile` is called for it.

Any other name is taken as a `torch.compile` backend without options (`aot_eager`, `eager`, ...).
`tenon_stats` reads Tenon's own counters; a counter that is not there is None and printed as "-".
"""

import argparse
import shutil

CONTENDERS = {
    "tenon": ("tenon", {"freeze": True}),
    "tenon_unfrozen": ("tenon", {"freeze": False}),
    "inductor": ("inductor", None),
    "inductor_freeze": ("inductor", {"freezing": True}),
}
PEERS = ("inductor", "inductor_freeze")
STATS = ("compile_ms", "kernels_compiled", "nodes", "nodes_fused", "fallbacks", "programs", "workspace_bytes")


def compiled(function, name, **keywords):
    import torch
    backend, options = CONTENDERS.get(name, (name, None))
    return torch.compile(function, backend=backend, options=options, **keywords)


def tenon_stats(name):
    if not name.startswith("tenon"):
        return dict.fromkeys(STATS)
    import tenon
    stats = tenon.stats()
    return {key: stats.get(key) for key in STATS}


def contender(text):
    """An argparse type: the names that the tables use for something else are refused."""
    if text in ("eager", "copy", "no-op"):
        raise argparse.ArgumentTypeError(f"{text} is measured already, beside the contender")
    return text


def missing_for_peers():
    """Why Inductor cannot be measured here, or None."""
    return None if shutil.which("g++") else "Inductor needs g++, which is not installed (apt-get install g++)"

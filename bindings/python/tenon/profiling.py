"""tenon.profile(): the time of every step of every run in this process. Tested by tests/torch/test_profile.py."""

import ctypes
import json
import os
import subprocess
import tempfile
from pathlib import Path

from . import _abi


class Profile:
    """Records while its `with` block runs, in all threads; one profile at a time. A second one raises tenon._abi.Error. Work that PyTorch does,
    such as fallbacks, is in no step.

    programs, after the block, is a list of dicts, one per compiled graph and sizes: program (its number), graph, sizes ("N=4"), runs, seconds
    (sum over runs) and steps. A step is a dict with step (its place in the graph), backend, ops, why (the group ends there), runs (the
    kernel or library call in words), seconds (sum over runs), fastest (seconds of one run), bytes and operations (of one run).
    """

    def __init__(self):
        self.programs, self._text, self._records = [], None, False

    def __enter__(self):
        _abi.check(_abi.library().tenon_profile_start())
        self._records = True
        return self

    def __del__(self):  # an abandoned profile does not keep others from recording
        if self._records:
            self.__exit__()

    def __exit__(self, *exception):
        if not self._records:
            raise RuntimeError("this profile is not being recorded")
        self._records = False
        text, length = ctypes.c_char_p(), ctypes.c_size_t()
        _abi.check(_abi.library().tenon_profile_stop(ctypes.byref(text), ctypes.byref(length)))
        self._text = ctypes.string_at(text, length.value).decode()
        self.programs = json.loads(self._text)["programs"]

    def save(self, path):
        """Writes compilations, plans, runs and steps, at most 65,536 of them, as a trace in Chrome's format, which Perfetto shows. Raises RuntimeError
        before the end of the block."""
        if self._text is None:
            raise RuntimeError("a profile can be saved after its `with` block")
        Path(path).write_text(self._text)

    def table(self, rows=20):
        """The steps with the most time, at most `rows` of them, as text: share of all runs, milliseconds and rates of one run."""
        total = sum(p["seconds"] for p in self.programs)
        steps = [(p, s) for p in self.programs for s in p["steps"]]
        steps.sort(key=lambda pair: -pair[1]["seconds"])
        lines = [f"{'share':>7} {'ms':>10} {'fastest':>10} {'GB/s':>7} {'GFLOP/s':>8} {'runs':>6}  {'back end':<9} graph: ops"]
        for program, step in steps[:rows]:
            each = step["seconds"] / program["runs"]
            lines.append(f"{step['seconds'] / total:>7.1%} {each * 1e3:>10.4f} {step['fastest'] * 1e3:>10.4f} "
                         f"{step['bytes'] / each / 1e9:>7.1f} {step['operations'] / each / 1e9:>8.1f} {program['runs']:>6}  "
                         f"{step['backend']:<9} {program['graph']} {program['sizes']}: {step['ops']}")
        if len(steps) > rows:
            lines.append(f"{sum(s['seconds'] for _, s in steps[rows:]) / total:>7.1%} in {len(steps) - rows} more steps")
        outside = total - sum(s["seconds"] for _, s in steps)
        lines.append(f"{outside / total if total else 0:>7.1%} between steps; {total * 1e3:.3f} ms in all")
        return "\n".join(lines)

    def report(self, threads=None):
        """All steps as text, with the share of the roofline that each reaches, and why a step ends where it ends. `tenon profile` prints
        it; it measures copies and multiply-adds on `threads` threads (None: all cores), which takes a second. Raises
        OSError if there is no such command beside the library, subprocess.CalledProcessError if it fails."""
        with tempfile.TemporaryDirectory() as folder:
            self.save(trace := os.path.join(folder, "trace.json"))
            count = [] if threads is None else ["--threads", str(threads)]
            return subprocess.run([_abi.packaged("tenon"), "profile", trace, *count], check=True, stdout=subprocess.PIPE, text=True).stdout

    def __str__(self):
        return self.table()

"""A contender of `./dev bench train`: a process that makes steps of training whenever it is asked, or one such process per rank.

Contenders take turns in processes of their own: a crash or a hang of one is reported in its row, the peak of memory is its own, and all
of them run at the same speed of the machine. A process reads one request per line, {"do": a name of ANSWERS, ...}, and answers with
one line of JSON. Tested by tests/torch/test_bench.py.
"""

import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch._dynamo.utils import counters

from bench.contenders import own_seconds
from bench.models.worker import python_path
from bench.training import step

ROOT = Path(__file__).resolve().parents[2]
LAST = 5  # pairs of batch and length after which no kernel should be compiled


class Failed(Exception):
    """The contender has ended or takes too long; the message says which of the two."""


@dataclass
class Setup:
    """A Setup says what a contender trains. options are those of its backend; ranks is the number of processes that train together and share `threads`."""
    model: str
    backend: str = None
    fused: bool = None
    options: dict = field(default_factory=dict)
    tiny: bool = False
    size: tuple = None  # (batch, length) of a model of sentences
    threads: int = 2
    autocast: str = None
    ranks: int = 1


class Contender:
    """Runs the processes of a Setup. limit_s: how long an answer may take; caches: a directory of caches that outlive the process. Use it
    as a context; the processes are ready when it begins."""

    def __init__(self, setup, limit_s, caches=None):
        self.setup, self.limit_s, self.caches = setup, limit_s, caches
        self.spent = 0.0  # the seconds of all steps that step() made

    def __enter__(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="tenon-bench-")
        self.log = open(Path(self.scratch.name, "log"), "wb")
        env = os.environ | {"OMP_NUM_THREADS": str(max(1, self.setup.threads // self.setup.ranks)), "HF_HUB_OFFLINE": "1",
                            "TORCHINDUCTOR_CACHE_DIR": self.caches or self.scratch.name, "PYTHONPATH": python_path()}
        env |= {"TENON_CACHE": "on", "TENON_CACHE_DIR": self.caches} if self.caches else {}
        command = [sys.executable, "-m", "bench.training.contender", json.dumps(asdict(self.setup)), self.scratch.name]
        self.processes = [subprocess.Popen([*command, str(rank)], cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                           stderr=self.log, start_new_session=True) for rank in range(self.setup.ranks)]
        try:
            self._answers("start")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        while self.processes:
            process = self.processes.pop()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # the compilers that it has started too, which may outlive it
            process.wait()
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            process.stdout.close()
        self.log.close()
        self.scratch.cleanup()

    def ask(self, do, **arguments):
        """The answer of the first rank; all ranks get the request."""
        for process in self.processes:
            try:
                process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
                process.stdin.flush()
            except BrokenPipeError:
                pass  # _answer says why
        return self._answers(do)[0]

    def _answers(self, do):
        deadline = time.monotonic() + self.limit_s
        return [self._answer(process, do, deadline) for process in self.processes]

    def _answer(self, process, do, deadline):
        ready, _, _ = select.select([process.stdout], [], [], max(0, deadline - time.monotonic()))
        if not ready:
            raise Failed(f"no answer to '{do}' within {self.limit_s:g} s")
        if line := process.stdout.readline():
            return json.loads(line)
        lines = Path(self.scratch.name, "log").read_text(errors="replace").strip().splitlines() or ["no output"]
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it stays a zombie, so no other group of processes gets its number
        code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        raise Failed(f"exit code {code} during '{do}': {lines[-1]}")

    def step(self):
        self.spent += self.ask("step")


class Process:
    """The side of the process."""

    def __init__(self, setup, scratch, rank):
        torch.set_num_threads(max(1, setup.threads // setup.ranks))
        torch._dynamo.config.trace_autograd_ops = True  # for derivatives.py; other models call no torch.autograd.grad
        if setup.ranks > 1:
            torch.distributed.init_process_group("gloo", init_method=f"file://{scratch}/ranks", rank=rank, world_size=setup.ranks)
        self.setup, self.model = setup, step.build(setup.model, setup.tiny, setup.size)
        self.training = step.Step(self.model[0], step.MODELS[setup.model][0], self.model[1], setup.backend, setup.fused, setup.options or None,
                                  setup.autocast and getattr(torch, setup.autocast), setup.ranks > 1)

    def first(self, count):
        """Seconds of the first step and the losses of the first `count`."""
        torch.manual_seed(0)
        start = time.perf_counter()
        losses = [float(self.training())]
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "losses": losses + [float(self.training()) for _ in range(count - 1)]}

    def step(self):
        return self.training.seconds()

    def saved(self):
        return step.saved_bytes(self.training)

    def peak(self):
        return min(step.peak_bytes(self.training) for _ in range(3))

    def exact(self, count):
        return step.exact_losses(self.setup.model, self.setup.tiny, count, self.setup.size)

    def own(self):
        """Seconds that Tenon or Inductor took of the steps so far; None for others."""
        return own_seconds(self.setup.backend or "eager")

    def stats(self):
        import tenon
        return {key: tenon.stats()[key] for key in ("kernels_compiled", "fallbacks", "fallback_reasons")}

    def shapes(self, count, batch, length, least):
        """Steps of `count` random batches (least[0] to `batch`) and lengths (least[1] to `length`). Returns the losses, the seconds of all steps, and
        the numbers of kernels and of graphs that were compiled after the first LAST distinct pairs."""
        made = lambda: (self.stats()["kernels_compiled"], counters["stats"]["unique_graphs"])
        draw, pairs = random.Random(0), []
        while len(pairs) < count:
            pair = draw.randint(least[0], batch), draw.randint(least[1], length)
            pairs += [pair] * (pair not in pairs)
        torch.manual_seed(0)
        losses, seconds, after = [], 0.0, (0, 0)
        for number, pair in enumerate(pairs):
            ids = self.model[1][0].flatten()
            self.training.inputs = (ids.repeat(-(-pair[0] * pair[1] // len(ids)))[:pair[0] * pair[1]].view(pair).clone(),)
            after = made() if number == LAST else after
            start = time.perf_counter()
            losses.append(float(self.training()))
            seconds += time.perf_counter() - start
        kernels, graphs = made()
        return {"losses": losses, "seconds": seconds, "kernels": kernels - after[0], "graphs": graphs - after[1]}


ANSWERS = ("first", "own", "step", "saved", "peak", "exact", "stats", "shapes")


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints goes to the log
    process = Process(Setup(**json.loads(sys.argv[1])), sys.argv[2], int(sys.argv[3]))
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        do = request.pop("do")
        assert do in ANSWERS, do
        print(json.dumps(getattr(process, do)(**request)), file=answers, flush=True)


if __name__ == "__main__":
    main()

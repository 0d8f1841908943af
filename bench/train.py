#!/usr/bin/env python3
"""`./dev bench train [MODEL...]`: whole steps of training (zero_grad, forward, loss, backward, AdamW, with dropout on).

Contenders: eager with its default optimizer (the base of all ratios), eager with `fused=True`, Tenon (model and optimizer compiled), with
`--peers` Inductor in the same way, and with `--tenon NAME=VALUE` Tenon with an option of its own (memory_budget=0.5, rng=fast). Each
is a process of its own; they take turns. A contender without an answer within `--limit` seconds is left out, and its row says so.
The losses of the first steps are compared first: with eager's, or with --exact all with those of steps in f64, where a contender's
error may be at most twice eager's (medians over the steps). Also printed: the bytes that the forward pass saves over eager's, the
seconds of the first step, and what runs in PyTorch.

--peak: the most memory during a step, less the memory before it, over eager's. --ddp: two processes train together (gloo), each with
half of the threads. --autocast bf16: the forward pass runs in autocast. --shapes N: instead of timing one size, N steps of random
batches and lengths, and the kernels that are compiled after the fifth. --warm: instead of timing steps, the first step of a process and
of a second one, which finds the caches of the first.
"""

import argparse
import ast
import contextlib
import functools
import math
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch                                                # noqa: E402

from bench.contenders import missing_for_peers              # noqa: E402
from bench.table import aligned                             # noqa: E402
from bench.timing import describe_machine, interleave, speedup  # noqa: E402
from bench.training.contender import LAST, Contender, Failed, Setup  # noqa: E402
from bench.training.step import DERIVATIVES, MODELS, SENTENCES           # noqa: E402

ROUNDS = 30
BATCH, LENGTH, TINY_LENGTH = 8, 128, 16  # the largest ones of --shapes
LEAST, LEAST_NO_ONES = (1, 2), (2, 3)    # the smallest batch and length of --shapes, and with --no-ones. A length of 2 has one token to predict
LOSS_STEPS, EXACT_STEPS = 3, 5
TOLERANCE = {None: 2e-3, "bfloat16": 2e-2}  # of losses, relative. A bf16 has 8 bits


def disagreements(name, losses, exact, tolerance=TOLERANCE[None]):
    """Returns a sentence for each loss that is wrong. losses: {contender: losses}, eager's too. exact: the losses of f64, or None to
    compare with eager's. Inductor and rng="fast" draw other numbers for dropout, so their losses are not compared."""
    others = [c for c in losses if c not in ("eager", "inductor", "rng=fast")]
    if exact is None:
        return [f"{name}: loss {got} of {c}, {want} of eager" for c in others for want, got in zip(losses["eager"], losses[c])
                if not math.isclose(want, got, rel_tol=tolerance, abs_tol=1e-5)]
    errors = {c: statistics.median(abs(got - want) for want, got in zip(exact, losses[c])) for c in ("eager", *others)}
    print(f"  {name}, median error of the loss: " + ", ".join(f"{error:.1e} of {c}" for c, error in errors.items()))
    least = torch.finfo(torch.float32).eps * statistics.median(map(abs, exact))  # one rounding of the loss
    return [f"{name}: the loss of {c} is off by {errors[c]}, that of eager by {errors['eager']}" for c in others
            if errors[c] > 2 * max(errors["eager"], least)]


def setups(name, threads, options):
    """{contender: its Setup}"""
    def setup(**named):
        return Setup(name, tiny=options.tiny, size=options.size, threads=threads, autocast=options.autocast, ranks=2 if options.ddp else 1, **named)

    found = {"eager": setup(), "fused": setup(fused=True), "tenon": setup(backend="tenon")}
    found |= {f"{key}={value}": setup(backend="tenon", options={key: value}) for key, value in options.tenon}
    return found | ({"inductor": setup(backend="inductor")} if options.peers else {})


class LeftOut(Exception):
    """A contender was left out while it was timed."""


class Race:
    """The contenders of a model that are still running. failed: {contender: why it is not}."""

    def __init__(self, name, threads, options, stack):
        self.name, self.failed, self.running = name, {}, {}
        for contender, setup in setups(name, threads, options).items():
            try:
                self.running[contender] = stack.enter_context(Contender(setup, options.limit))
            except Failed as error:
                self._leave_out(contender, error)

    def _leave_out(self, contender, error):
        if contender == "eager":
            raise error
        self.failed[contender] = str(error)
        if contender in self.running:
            self.running.pop(contender).__exit__()

    def ask(self, do, only=lambda contender: True, **arguments):
        """Returns {contender: answer}. A contender that gives no answer is left out from then on. If eager mode gives none, the error is
        raised, because there is nothing to compare with."""
        answers = {}
        for contender in list(self.running):
            if only(contender):
                try:
                    answers[contender] = self.running[contender].ask(do, **arguments)
                except Failed as error:
                    self._leave_out(contender, error)
        return answers

    def is_tenon(self, contender):
        return self.running[contender].setup.backend == "tenon"

    def compiles(self, contender):
        return self.running[contender].setup.backend is not None

    def times(self, seconds):
        """{contender: seconds of a step, one entry per round}, as the contender's own clock has them. If one gives no answer, as in ask(),
        the others are timed again without it."""
        def step(contender):
            try:
                self.running[contender].step()
            except Failed as error:
                self._leave_out(contender, error)
                raise LeftOut from error

        spent = lambda: sum(contender.spent for contender in self.running.values())
        while True:
            with contextlib.suppress(LeftOut):
                return interleave({name: functools.partial(step, name) for name in self.running}, ROUNDS, limit_s=seconds, clock=spent)


def relative(values):
    """{contender: cell}: eager's value, and the others over it."""
    return {c: (f"{v / 1e6:.0f} MB" if c == "eager" else f"{v / max(values['eager'], 1):.2f}") for c, v in values.items()}


def measure(name, threads, options):
    """({column: cell}, ratios {contender: speed over eager's}, sentences about what is wrong)"""
    with contextlib.ExitStack() as stack:
        race = Race(name, threads, options, stack)
        first = race.ask("first", count=EXACT_STEPS if options.exact else LOSS_STEPS)
        exact = race.ask("exact", lambda c: c == "eager", count=EXACT_STEPS)["eager"] if options.exact else None
        wrong = disagreements(name, {c: answer["losses"] for c, answer in first.items()}, exact, TOLERANCE[options.autocast])
        stats, own = race.ask("stats", lambda c: c == "tenon").get("tenon"), race.ask("own", race.compiles)
        saved = race.ask("saved", lambda c: c == "eager" or race.is_tenon(c))
        peak = race.ask("peak") if options.peak else {}
        times = race.times(options.seconds)
    ratios = {c: speedup(times["eager"], times[c]) for c in times if c != "eager"}
    row = {"model": name, "threads": str(threads), "eager ms": f"{statistics.median(times['eager']) * 1e3:.1f}"}
    row |= {c: f"{ratios[c]:.2f}x" if c in ratios else None for c in setups(name, threads, options) if c != "eager"}
    row |= {f"saved, {c}": cell for c, cell in relative(saved).items()} | {f"peak, {c}": cell for c, cell in relative(peak).items()}
    row |= {f"first s, {c}": f"{answer['seconds']:.1f}" for c, answer in first.items()}
    row |= {f"own s, {c}": f"{seconds:.2f}" for c, seconds in own.items()}
    if stats:
        row |= {"in PyTorch": str(stats["fallbacks"])}
        for why, count in stats["fallback_reasons"].items():
            print(f"  in PyTorch, {count}: {why}")
    return row, ratios, wrong + tell(name, race)


def longest(options):
    return TINY_LENGTH if options.tiny else LENGTH


def least(options):
    return LEAST_NO_ONES if options.no_ones else LEAST


def measure_shapes(name, threads, options):
    """As measure(), for steps of random batches and lengths."""
    with contextlib.ExitStack() as stack:
        race = Race(name, threads, options, stack)
        found = race.ask("shapes", count=options.shapes, batch=BATCH, length=longest(options), least=least(options))
    tolerance = TOLERANCE["bfloat16"]  # after so many steps the weights differ
    wrong = disagreements(name, {c: answer["losses"] for c, answer in found.items()}, None, tolerance)
    row = {"model": name, "threads": str(threads), "eager s": f"{found['eager']['seconds']:.1f}"}
    ratios = {c: found["eager"]["seconds"] / answer["seconds"] for c, answer in found.items() if c != "eager"}
    row |= {c: f"{ratios[c]:.2f}x" if c in ratios else None for c in setups(name, threads, options) if c != "eager"}
    row |= {"kernels late": str(found["tenon"]["kernels"]), "graphs late": str(found["tenon"]["graphs"])} if "tenon" in found else {}
    return row, ratios, wrong + tell(name, race)


def measure_warm(name, threads, options):
    """As measure(), for the first steps of two processes one after the other. The ratios are those of the contender's own seconds."""
    row, ratios, wrong = {"model": name, "threads": str(threads)}, {}, []
    for contender, setup in setups(name, threads, options).items():
        if not setup.backend:
            continue
        try:
            with tempfile.TemporaryDirectory(prefix="tenon-bench-") as caches:
                found = [first_step(Contender(setup, options.limit, caches)) for _ in range(2)]
        except Failed as error:
            wrong.append(f"{name}: {contender}: {error}")
            continue
        for what, (seconds, own) in zip(("first", "second"), found):
            row |= {f"{what} process, {contender}": f"{seconds:.1f}", f"own s, {what}, {contender}": f"{own:.2f}"}
        ratios[contender] = found[0][1] / found[1][1]
    return row, ratios, wrong


def first_step(contender):
    """(seconds of the first step of a process, the seconds of it that the contender itself takes)"""
    with contender as running:
        return running.ask("first", count=1)["seconds"], running.ask("own")


def tell(name, race):
    """Prints who failed and why. Returns a sentence for each that is ours."""
    for contender, why in race.failed.items():
        print(f"  {name}: {contender} is left out: {why}")
    return [f"{name}: {contender}: {why}" for contender, why in race.failed.items() if contender != "inductor"]


def main():
    options = parse()
    machine = describe_machine()
    rows, wrong, means = [], [], {}
    way = measure_shapes if options.shapes else measure_warm if options.warm else measure
    for name in options.models:
        for threads in options.threads:
            try:
                row, ratios, bad = way(name, threads, options)
            except Failed as error:
                wrong.append(f"{name}, {threads} threads: eager: {error}")
                print(f"  {wrong[-1]}", flush=True)
                continue
            rows.append(row)
            print("  " + ", ".join(f"{column} {cell}" for column, cell in row.items()), flush=True)
            wrong += bad
            for c, r in ratios.items():
                means.setdefault((c, threads), []).append(r)
    header = list(dict.fromkeys(column for row in rows for column in row))
    print("\n" + aligned(header, [[row.get(column) for column in header] for row in rows]))
    of = "own seconds of the first process over those of the second: " if options.warm else "geometric means: "
    print(of + ", ".join(f"{c} {math.exp(statistics.fmean(map(math.log, r))):.2f}x on {threads} threads" for (c, threads), r in means.items()))
    mode = f"{options.autocast or 'f32'}{', two processes' if options.ddp else ''}"
    print(f"\n{machine}. {mode}. Ratios: eager's time over the contender's. saved: bytes kept for the backward pass, peak: memory of a step, both over eager's."
          + f" late: after the first {LAST} sizes." * bool(options.shapes))
    right = "errors of the losses are at most twice eager's" if options.exact else "losses of the first steps agree"
    print("\n".join(wrong) or right * (not options.warm))
    return 1 if wrong else 0


def option(text):
    """NAME=VALUE of --tenon -> (name, value)"""
    key, _, value = text.partition("=")
    try:
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key, value


def parse(arguments=None):
    parser = argparse.ArgumentParser(prog="./dev bench train", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--peers", action="store_true", help="Inductor too; needs g++")
    parser.add_argument("--tenon", type=option, action="append", default=[], metavar="NAME=VALUE", help="Tenon with this option too; may be repeated")
    parser.add_argument("--threads", type=lambda text: list(map(int, text.split(","))), default=[torch.get_num_threads()], metavar="N,...")
    parser.add_argument("--seconds", type=float, default=60, help="per row, after the first steps")
    parser.add_argument("--limit", type=float, default=300, help="seconds until a contender is left out")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--size", type=lambda text: tuple(map(int, text.split("x"))), metavar="BATCHxLENGTH", help="of a model of sentences")
    parser.add_argument("--exact", action="store_true", help="compare losses with f64 instead of with eager")
    parser.add_argument("--autocast", choices=["bf16"], help="the forward pass computes products in this dtype; the CPU must have instructions for it")
    parser.add_argument("--peak", action="store_true", help="memory of a step")
    parser.add_argument("--ddp", action="store_true", help="two processes with DistributedDataParallel (gloo)")
    parser.add_argument("--shapes", type=int, default=0, metavar="N", help="N random batches and lengths instead of one size")
    parser.add_argument("--no-ones", action="store_true", help="with --shapes: no axis of size 1, for which PyTorch traces the model once more")
    parser.add_argument("--warm", action="store_true", help="the first steps of two processes that share caches on disk")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.models if name not in MODELS]:
        parser.error(f"no model '{unknown[0]}': {', '.join(MODELS)}")
    options.models = options.models or (SENTENCES if options.shapes else [name for name in MODELS if name not in DERIVATIVES])
    if options.shapes and not set(options.models) <= set(SENTENCES):
        parser.error(f"--shapes takes models of sentences: {', '.join(SENTENCES)}")
    if options.size and (len(options.size) != 2 or options.shapes or not set(options.models) <= set(SENTENCES)):
        parser.error(f"--size takes a batch and a length of models of sentences: {', '.join(SENTENCES)}")
    pairs = (BATCH - least(options)[0] + 1) * (longest(options) - least(options)[1] + 1)
    if options.shapes and not LAST < options.shapes <= pairs:
        parser.error(f"--shapes takes {LAST + 1} to {pairs}: there are {pairs} pairs of a batch and a length, and kernels of the first {LAST} are not late")
    if options.peers and missing_for_peers():
        parser.error(missing_for_peers())
    if options.autocast:
        flags = Path("/proc/cpuinfo").read_text().split()
        if not {"avx512_bf16", "amx_bf16"} & set(flags):
            parser.error("this CPU has no products of bf16")
        options.autocast = "bfloat16"
    return options


if __name__ == "__main__":
    sys.exit(main())

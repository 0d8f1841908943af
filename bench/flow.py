#!/usr/bin/env python3
"""`./dev bench flow [--batch N] [--rounds N]`: a step of training of examples/flow's LeNet with Adam: loss, gradients and optimizer.

Compares it with PyTorch eager on the same network, with the same weights and images (first the losses of three steps must agree), and
with the same graph without fusion (`tenon run --without=fuse`, all else equal). Also prints the planned memory of intermediates.
"""

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "examples/flow"), str(ROOT / "bindings/python")]

import numpy                    # noqa: E402
import torch                    # noqa: E402
from torch import nn            # noqa: E402

import flow as tf               # noqa: E402
from digits import digits       # noqa: E402
from lenet import lenet         # noqa: E402

from bench.timing import describe_machine, interleave, speedup     # noqa: E402

RATE, EPSILON = 0.002, 1e-8


class Flow:
    """The step in flow: one program."""

    def __init__(self, images, labels):
        x, y = tf.placeholder(shape=(None, 1, 28, 28)), tf.placeholder(shape=(None,))
        loss = tf.nn.mean_sparse_softmax_cross_entropy_with_logits(lenet(x), y)
        self.fetches = [loss, tf.train.AdamOptimizer(RATE, epsilon=EPSILON).minimize(loss)]
        self.feeds, self.session = {x: images, y: labels}, tf.Session()
        self.session.run(tf.initialize_all_variables())
        self.variables = tf.variables_of(loss)
        self.session.explain(self.fetches, self.feeds)     # makes the program, which decides the variables' shapes

    def weights(self):
        return [self.session.value_of(v).copy() for v in self.variables]

    def step(self):
        return float(self.session.run(self.fetches, self.feeds)[0])

    def memory(self):
        """Planned bytes of intermediates, and their bytes if none shared memory."""
        last = self.session.explain(self.fetches, self.feeds).rsplit("planned workspace", 1)[1]
        return [int(re.search(pattern, last)[1]) for pattern in (r"intermediates (\d+)", r"without sharing (\d+)")]

    def save(self, folder):
        """Writes the graph and its inputs. Returns the arguments of `tenon run`."""
        program = self.session._call([self.fetches[0]], self.fetches[1].assigns, self.feeds)
        (folder / "step.tn").write_text(program.graph.text())
        arguments = [str(folder / "step.tn"), "--dim", f"N={len(next(iter(self.feeds.values())))}"]
        for i, tensor in enumerate(program.inputs):
            array = self.feeds[tensor] if tensor in self.feeds else self.session.value_of(tensor)
            numpy.save(folder / f"i{i}.npy", array)
            arguments += ["--input", f"i{i}={folder}/i{i}.npy"]
        return arguments


class Torch:
    """The same step in PyTorch eager."""

    def __init__(self, images, labels, weights):
        self.net = nn.Sequential(nn.Conv2d(1, 20, 5), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.Tanh(), nn.MaxPool2d(2),
                                 nn.Flatten(), nn.Linear(800, 500), nn.Tanh(), nn.Linear(500, 10))
        with torch.no_grad():
            for parameter, array in zip(self.net.parameters(), weights, strict=True):
                parameter.copy_(torch.from_numpy(array))
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=RATE, eps=EPSILON)
        self.images, self.labels = torch.from_numpy(images), torch.from_numpy(labels).long()

    def step(self):
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.net(self.images), self.labels)
        loss.backward()
        self.optimizer.step()
        return loss.item()


def run_milliseconds(arguments):
    text = subprocess.run([ROOT / "build/release/bin/tenon", "run", *arguments], check=True, capture_output=True, text=True).stdout
    return float(re.search(r"ran in ([\d.]+) ms", text)[1])


def fusion(arguments, rounds):
    """Milliseconds of the step with and without fusion, per round."""
    times = {"fused": [], "unfused": []}
    for r in range(rounds):
        for name in list(times)[:: -1 if r % 2 else 1]:
            without = ["--without", "fuse"] if name == "unfused" else []
            times[name].append(min(run_milliseconds([*arguments, "--repeat", str(repeats), *without]) for repeats in (5, 6, 7)))
    return times


def main():
    parser = argparse.ArgumentParser(prog="./dev bench flow", description=__doc__.split("\n\n")[0])
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=15, help="for the comparison with PyTorch")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    machine = describe_machine()
    images, labels = digits(options.batch)
    images, labels = images.astype("float32"), labels.astype("float32")
    ours = Flow(images, labels)
    eager = Torch(images, labels, ours.weights())
    losses = [(ours.step(), eager.step()) for _ in range(3)]
    if not numpy.allclose(*zip(*losses), rtol=1e-3):
        sys.exit(f"bench flow: the losses of flow and PyTorch differ: {losses}")
    times = interleave({"flow": ours.step, "eager": eager.step}, 1000, limit_s=options.seconds)
    print(f"LeNet, Adam, batch {options.batch}; {machine}, {options.threads} threads; milliseconds per step")
    print(f"flow {statistics.median(times['flow']) * 1e3:.2f}, PyTorch eager {statistics.median(times['eager']) * 1e3:.2f}: "
          f"{speedup(times['eager'], times['flow']):.2f}x")
    with tempfile.TemporaryDirectory() as folder:
        parts = fusion(ours.save(Path(folder)), options.rounds)
    print(f"fused {statistics.median(parts['fused']):.2f}, without fusion {statistics.median(parts['unfused']):.2f}: "
          f"{speedup(parts['unfused'], parts['fused']):.2f}x")
    planned, apart = ours.memory()
    print(f"intermediates {planned / 1e6:.1f} MB, without sharing memory {apart / 1e6:.1f} MB: {planned / apart:.2f}x")


if __name__ == "__main__":
    sys.exit(main())

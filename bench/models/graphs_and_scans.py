"""A layer of a graph network and a block of a state space model, written for the zoo as users write them in PyTorch alone; `NAME(tiny)` returns
(model, inputs). Tested by tests/torch/test_zoo.py.
"""

import torch
import torch.nn.functional as F
from torch import nn


class MessagePassing(nn.Module):
    """(features [N,C] of nodes, edges [2,E] as pairs source, target) -> features [N,C]. A message is a perceptron of both ends; a node takes the
    mean of the messages that it gets."""

    def __init__(self, width):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width))
        self.update = nn.Linear(2 * width, width)

    def forward(self, x, edges):
        source, target = edges
        messages = self.message(torch.cat([x[source], x[target]], 1))
        total = torch.zeros_like(x).index_add(0, target, messages)
        degree = x.new_zeros(len(x)).scatter_add(0, target, x.new_ones(len(target)))
        return x + F.relu(self.update(torch.cat([x, total / degree.clamp(min=1)[:, None]], 1)))


def gnn_layer(tiny):
    nodes, edges, width = (20, 60, 8) if tiny else (2000, 10000, 64)
    return MessagePassing(width), (torch.randn(nodes, width), torch.randint(nodes, (2, edges)))


def scan(a, b):
    """h of h[t] = a[t] * h[t - 1] + b[t] along axis 1, in log2(T) steps of the whole sequence (Hillis and Steele 1986)."""
    step, length = 1, a.shape[1]
    while step < length:
        b = torch.cat([b[:, :step], b[:, step:] + a[:, step:] * b[:, :-step]], 1)
        a = torch.cat([a[:, :step], a[:, step:] * a[:, :-step]], 1)
        step *= 2
    return b


class Mamba(nn.Module):
    """A selective state space block (Gu and Dao 2023): [N,T,width] -> [N,T,width]."""

    def __init__(self, width, states):
        super().__init__()
        inner, self.states, self.rank = 2 * width, states, max(1, width // 16)
        self.norm = nn.RMSNorm(width)
        self.enter = nn.Linear(width, 2 * inner, bias=False)
        self.conv = nn.Conv1d(inner, inner, 4, groups=inner, padding=3)
        self.select = nn.Linear(inner, self.rank + 2 * states, bias=False)
        self.step = nn.Linear(self.rank, inner)
        self.log_decay = nn.Parameter(torch.zeros(inner, states))
        self.skip = nn.Parameter(torch.ones(inner))
        self.leave = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        u, gate = self.enter(self.norm(x)).chunk(2, -1)
        u = F.silu(self.conv(u.transpose(1, 2))[..., :x.shape[1]].transpose(1, 2))
        step, b, c = self.select(u).split([self.rank, self.states, self.states], -1)
        step = F.softplus(self.step(step))[..., None]                                       # [N,T,inner,1]
        h = scan(torch.exp(-step * self.log_decay.exp()), step * u[..., None] * b[:, :, None])     # [N,T,inner,states]
        y = (h * c[:, :, None]).sum(-1) + self.skip * u
        return x + self.leave(y * F.silu(gate))


def mamba_block(tiny):
    width, states, length = (16, 4, 13) if tiny else (256, 16, 256)
    return Mamba(width, states), (torch.randn(1, length, width),)

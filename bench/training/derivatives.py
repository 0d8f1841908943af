"""Steps of training whose loss contains derivatives of the model by its inputs. torch.autograd.grad computes them in the compiled function, so
these inputs require gradients, and contender.py sets torch._dynamo.config.trace_autograd_ops. Tested by tests/torch/test_derivatives.py.
"""

import torch
import torch.nn.functional as F
from torch import nn


def _derivative(y, x):
    return torch.autograd.grad(y.sum(), x, create_graph=True)[0]


# A physics-informed network ---------------------------------------------------------------------------------

def burgers(tiny):
    """u(x, t) at points [N,2], as in Raissi et al., Physics-informed neural networks (2019): eight layers with tanh."""
    width, points = (8, 20) if tiny else (64, 2000)
    layers = [layer for i in range(8) for layer in (nn.Linear(width if i else 2, width), nn.Tanh())]
    return nn.Sequential(*layers, nn.Linear(width, 1)), (torch.rand(points, 2).requires_grad_(),)


def of_burgers(model, points):
    """The residual of Burgers' equation, u_t + u u_x = 0.01/pi u_xx."""
    u = model(points)
    first = _derivative(u, points)
    second = _derivative(first[:, :1], points)[:, :1]
    return (first[:, 1:] + u * first[:, :1] - 0.01 / torch.pi * second).square().mean()


# A critic with a gradient penalty ---------------------------------------------------------------------------

def critic(tiny):
    """Scores of images [N,3,S,S], as in Gulrajani et al., Improved training of Wasserstein GANs (2017): four convolutions with stride 2."""
    width, size, batch = (4, 16, 2) if tiny else (64, 64, 8)
    channels = [3, width, 2 * width, 4 * width, 8 * width]
    layers = [layer for c, d in zip(channels, channels[1:]) for layer in (nn.Conv2d(c, d, 4, 2, 1), nn.LeakyReLU(0.2))]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(8 * width * (size // 16) ** 2, 1)), (torch.randn(batch, 3, size, size).requires_grad_(),)


def of_penalty(model, images):
    scores = model(images)
    return scores.mean() + 10 * (_derivative(scores, images).flatten(1).norm(dim=1) - 1).square().mean()


# Forces between atoms ---------------------------------------------------------------------------------------

class Schnet(nn.Module):
    """The energy of atoms, after Schütt et al., SchNet (2017): filters of distances between pairs, sums over the pairs of an atom."""

    def __init__(self, width, layers):
        super().__init__()
        self.kinds, self.head = nn.Embedding(20, width), nn.Linear(width, 1)
        two = lambda size: nn.Sequential(nn.Linear(size, width), nn.Softplus(), nn.Linear(width, width))
        self.filters, self.updates = (nn.ModuleList(two(size) for _ in range(layers)) for size in (32, width))
        self.register_buffer("centres", torch.linspace(0, 5, 32))

    def forward(self, places, kinds, pairs):
        distance = (places[pairs[0]] - places[pairs[1]]).square().sum(-1, keepdim=True).add(1e-6).sqrt()
        basis = torch.exp(-10 * (distance - self.centres).square())
        fade = 0.5 * (torch.cos(distance * (torch.pi / 5)) + 1) * (distance < 5)
        x = self.kinds(kinds)
        for filters, update in zip(self.filters, self.updates):
            messages = x[pairs[1]] * filters(basis) * fade
            x = x + update(torch.zeros_like(x).index_add(0, pairs[0], messages))
        return self.head(x)


def force_field(tiny):
    width, atoms, pairs = (8, 10, 30) if tiny else (128, 200, 4000)
    return Schnet(width, 3), ((2 * torch.randn(atoms, 3)).requires_grad_(), torch.randint(20, (atoms,)), torch.randint(atoms, (2, pairs)))


def of_forces(model, places, kinds, pairs):
    return F.mse_loss(-_derivative(model(places, kinds, pairs), places), torch.cos(places.detach()))


# name -> (function of `tiny` that returns the model and its inputs, loss of the model and its inputs)
ALL = {"burgers": (burgers, of_burgers), "critic": (critic, of_penalty), "force_field": (force_field, of_forces)}


def build(name, tiny):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return ALL[name][0](tiny)

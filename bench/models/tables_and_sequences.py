"""Models of tables and of sequences, written for the zoo; `NAME(tiny)` returns (model, inputs). Tested by tests/torch/test_zoo.py."""

import torch
from torch import nn


class Dlrm(nn.Module):
    """A recommendation model: 26 tables, a product of all pairs, two perceptrons."""

    def __init__(self, rows, width):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(26))
        self.bottom = nn.Sequential(nn.Linear(13, 128), nn.ReLU(), nn.Linear(128, width), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(width + 27 * 26 // 2, 128), nn.ReLU(), nn.Linear(128, 1))
        self.register_buffer("pairs", torch.tril_indices(27, 27, -1))

    def forward(self, dense, sparse):
        x = self.bottom(dense)
        features = torch.stack([x, *(table(sparse[:, i]) for i, table in enumerate(self.tables))], 1)
        products = torch.bmm(features, features.transpose(1, 2))
        return self.top(torch.cat([x, products[:, self.pairs[0], self.pairs[1]]], 1))


class Tabular(nn.Module):
    """(numbers [N,16], categories [N,8]) -> scores [N,classes]: embeddings of the categories, three layers with batch norm."""

    def __init__(self, rows, width, hidden, classes):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(8))
        sizes = [16 + 8 * width, hidden, hidden, hidden]
        self.layers = nn.Sequential(*(layer for c_in, c_out in zip(sizes, sizes[1:]) for layer in (
            nn.Linear(c_in, c_out), nn.BatchNorm1d(c_out), nn.ReLU(), nn.Dropout(0.1))))
        self.head = nn.Linear(hidden, classes)

    def forward(self, numbers, categories):
        embedded = [table(categories[:, i]) for i, table in enumerate(self.tables)]
        return self.head(self.layers(torch.cat([numbers, *embedded], 1)))


class Tagger(nn.Module):
    """Tags the words of sentences [N,T]: an embedding, two recurrent layers, a linear layer. Returns [N,T,tags]."""

    def __init__(self, layer, words, width, tags):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = layer(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, tags)

    def forward(self, words):
        return self.head(self.layers(self.embedding(words))[0])


def dlrm(tiny):
    rows, batch = (50, 8) if tiny else (10000, 256)
    return Dlrm(rows, 16), (torch.randn(batch, 13), torch.randint(rows, (batch, 26)))


def tabular_mlp(tiny):
    rows, hidden, batch = (20, 32, 16) if tiny else (1000, 512, 512)
    return Tabular(rows, 16, hidden, 10), (torch.randn(batch, 16), torch.randint(rows, (batch, 8)))


def tagger(layer):
    def make(tiny):
        words, width, batch, length = (100, 32, 2, 9) if tiny else (10000, 256, 8, 64)
        return Tagger(layer, words, width, 7 if tiny else 50), (torch.randint(words, (batch, length)),)
    return make

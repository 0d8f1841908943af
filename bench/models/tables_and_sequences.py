"""A recommendation model and taggers of sequences, written for the zoo. Tested by tests/torch/test_zoo.py."""

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


class Tagger(nn.Module):
    """Tags the words of sentences [N,T]: an embedding, two recurrent layers, a linear layer. Returns [N,T,tags]."""

    def __init__(self, layer, words, width, tags):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = layer(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, tags)

    def forward(self, words):
        return self.head(self.layers(self.embedding(words))[0])

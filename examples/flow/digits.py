"""Pictures of digits, drawn with NumPy: 28 x 28, each of another size, place, slant and brightness, with noise."""

import numpy

FONT = """
01110 00100 01110 11111 00010 11111 00110 11111 01110 01110
10001 01100 10001 00010 00110 10000 01000 00001 10001 10001
10011 00100 00001 00100 01010 11110 10000 00010 10001 10001
10101 00100 00010 00010 10010 00001 11110 00100 01110 01111
11001 00100 00100 00001 11111 00001 10001 01000 10001 00001
10001 00100 01000 10001 00010 10001 10001 01000 10001 00010
01110 01110 11111 01110 00010 01110 01110 01000 01110 01100
"""
GLYPHS = numpy.array([[[int(c) for c in word] for word in line.split()] for line in FONT.strip().splitlines()]).transpose(1, 0, 2)


def digits(count, seed=0):
    """(pictures f32 [count,1,28,28], labels i64 [count])."""
    random = numpy.random.default_rng(seed)
    labels = random.integers(0, 10, count)
    height, width = random.uniform(15, 22, (2, count))
    width *= 0.7
    top, left = random.uniform(0, 28 - height), random.uniform(0, 28 - width)
    slant, light = random.uniform(-0.25, 0.25, count), random.uniform(0.6, 1, count)
    rows, columns = (numpy.arange(28)[:, None] + numpy.zeros((28, 28)) for _ in range(2))
    columns = columns.T
    y = (rows[None] - top[:, None, None]) / height[:, None, None] * 7
    x = (columns[None] - left[:, None, None] + slant[:, None, None] * (rows[None] - 14)) / width[:, None, None] * 5
    inside = (x >= 0) & (x < 5) & (y >= 0) & (y < 7)
    ink = GLYPHS[labels[:, None, None], numpy.clip(y, 0, 6).astype(int), numpy.clip(x, 0, 4).astype(int)] * inside
    pictures = ink * light[:, None, None] + random.normal(0, 0.1, (count, 28, 28))
    return pictures[:, None].astype("float32"), labels

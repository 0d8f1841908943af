"""Benchmarks of Tenon. Kernels on disk would hide what a compile costs: they are off where the caller says nothing."""

import os

os.environ.setdefault("TENON_CACHE", "off")

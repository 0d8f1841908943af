"""Benchmarks of Tenon. The cache on disk is off unless the caller sets it, since it would hide the cost of compiles."""

import os

os.environ.setdefault("TENON_CACHE", "off")

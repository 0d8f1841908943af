"""All Python tests: none of them reads or writes the kernels that its user has on disk."""

import os

os.environ["TENON_CACHE"] = "off"

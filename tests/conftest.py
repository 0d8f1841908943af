"""For all Python tests: no test reads or writes the user's cache of kernels on disk."""

import os

os.environ["TENON_CACHE"] = "off"

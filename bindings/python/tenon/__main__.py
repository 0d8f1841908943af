"""The command line: `tenon ARGUMENTS` or `python -m tenon ARGUMENTS` runs the executable in _lib/.

Tested by tests/package/wheel_check.py.
"""

import os
import sys


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_lib", "tenon")
    try:
        os.execv(path, ["tenon", *sys.argv[1:]])
    except OSError as e:
        sys.exit(f"tenon: cannot run {path} ({e.strerror})")


if __name__ == "__main__":
    main()

"""The command line: `tenon ARGUMENTS` or `python -m tenon ARGUMENTS` runs the executable in _lib/. `bench` with peers or with a model of
PyTorch runs torch/peers, which needs PyTorch.

Tested by tests/package/wheel_check.py and tests/torch/test_peers.py.
"""

import os
import sys

from ._abi import packaged


def needs_python(arguments):
    """Whether the arguments of `bench` name other libraries or a model."""
    for word, following in zip(arguments, [*arguments[1:], ""]):
        if word.startswith("--from-explain"):
            return True
        name, equals, value = word.partition("=")
        if name == "--vs" and (value if equals else following) not in ("unfused", ""):
            return True
    return False


def main():
    path = packaged("tenon")
    if sys.argv[1:2] == ["bench"] and needs_python(sys.argv[2:]):
        from .torch.peers.bench import main as bench

        try:
            sys.exit(bench(sys.argv[2:], path))
        except KeyboardInterrupt:
            sys.exit(130)
        except BrokenPipeError:  # the reader of the output has ended
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(141)
    try:
        os.execv(path, ["tenon", *sys.argv[1:]])
    except OSError as e:
        sys.exit(f"tenon: cannot run {path} ({e.strerror})")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Runs a module as `python -m` does, on a machine whose disk is cold: cold_disk.py SECONDS PACKAGE MODULE.

The first read of the package takes so many seconds. A large package on a fresh pod takes that long, and a second
start finds its files in memory.
"""

import runpy
import sys
import time
from importlib.machinery import SourceFileLoader
from pathlib import Path

seconds, package, module = float(sys.argv[1]), sys.argv[2], sys.argv[3]
read = SourceFileLoader.get_data


def read_slowly(loader: SourceFileLoader, path: str) -> bytes:
    """Wait for the disk, then read."""
    if Path(path).parent.name == package:
        time.sleep(seconds)
    return read(loader, path)


SourceFileLoader.get_data = read_slowly  # type: ignore[assignment, method-assign]
sys.argv = [module]
sys.path[0] = str(Path.cwd())
runpy.run_module(module, run_name="__main__", alter_sys=True)

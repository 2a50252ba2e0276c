# SPDX-License-Identifier: Apache-2.0
"""Logs, then dies of an exception with exit code 1, as a server does whose kernels do not load."""

import sys


def load_kernels() -> None:
    raise ImportError("libcudart.so.12: cannot open shared object file")


for step in range(30):
    sys.stdout.write(f"loading {step}\n")
sys.stdout.flush()
load_kernels()

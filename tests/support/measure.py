# SPDX-License-Identifier: Apache-2.0
"""Acts on its own interpreter: starts coverage in a Python that runs ci-doctor or tests of it, and in no other.

tests/run.sh has every Python of its environment run this at start-up. To import coverage takes 60 ms, and most of the
Pythons that tests start are servers, victims and bystanders without a line of ci-doctor in them.
"""

import os
import sys

# Of the command line: `-m ci_doctor`, `bin/ci-doctor`, `-c "from ci_doctor ..."`; workers of xdist and multiprocessing;
# programs of tests/support that are clients of the library. One that matches without need costs its 60 ms, no more.
_MARKS = (
    "ci_doctor",
    "ci-doctor",
    "pytest",
    "sys.stdin.readline",
    "multiprocessing",
    "holds_a_guardian",
)


def _start() -> None:
    if not any(mark in word for word in sys.orig_argv[1:] for mark in _MARKS):
        return
    import coverage

    # Only for this call: its children decide for themselves.
    os.environ["COVERAGE_PROCESS_START"] = os.environ["MEASURE_COVERAGE"]
    try:
        coverage.process_startup()
    finally:
        del os.environ["COVERAGE_PROCESS_START"]


_start()

# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: a unit of time that grows with the load of the machine, for bounds that must hold on a busy one."""

import time
from pathlib import Path

from tests.support.cli import doctor


def start_s(directory: Path) -> float:
    """Seconds of wall clock that one start of ci-doctor takes now: a twentieth on a quiet machine."""
    began = time.monotonic()
    assert doctor("--version", cwd=directory).code == 0
    return time.monotonic() - began

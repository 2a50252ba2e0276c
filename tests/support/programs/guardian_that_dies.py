# SPDX-License-Identifier: Apache-2.0
"""WHEN FLAG ROOT and the arguments of a guardian: one that is killed after its first fork, before it can tell of that.

WHEN is the state of the child by then: `fork` (still the guardian's own code), `exec` (it runs the program), or `end`. Whoever
finds FLAG is not killed.
"""

import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

when, flag, root = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
sys.path.append(root)

from ci_doctor.system import guardian_main as main  # noqa: E402
from ci_doctor.system.processes import program  # noqa: E402

start, become = program.start, program._become


def start_and_die(*arguments: Any, **options: Any) -> tuple[int, int]:
    if flag.exists():
        return start(*arguments, **options)
    flag.touch()
    if when == "fork":
        program._become = become_an_orphan  # type: ignore[assignment]
    pid, report = start(*arguments, **options)
    if when == "exec":
        select.select([report], [], [])
    if when == "end":
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    os.kill(os.getpid(), signal.SIGKILL)
    return pid, report


def become_an_orphan(*arguments: Any) -> None:
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.001)
    become(*arguments)


main.start = start_and_die  # type: ignore[attr-defined]
main.main()

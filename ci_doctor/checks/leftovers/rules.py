# SPDX-License-Identifier: Apache-2.0
"""Pure. The rules of the area `leftovers`."""

from typing import Final

from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

STALE_PROCESSES: Final = Rule(
    id="doctor/stale-processes",
    severity=Severity.WARNING,
    meaning="Servers or workers of an earlier job still run: nothing waits for them any more. They "
    "hold memory, ports, or a GPU.",
    remedy="End them, once you are sure that nobody uses them: `kill PID`, after some seconds "
    "`kill -9 PID`. ci-doctor ends no process that it did not start.",
)

OTHER_JOB: Final = Rule(
    id="doctor/other-job",
    severity=Severity.NOTE,
    meaning="Another job runs servers on this machine now. It competes for GPUs, memory and ports.",
    remedy="Give each job GPUs of its own (CUDA_VISIBLE_DEVICES), or the machine one job at a time.",
)

ZOMBIES: Final = Rule(
    id="doctor/zombies",
    severity=Severity.NOTE,
    meaning="Processes have ended, and their parent does not wait for them. Each holds a place in the "
    "table of processes. In a container this is usual if its first process is no init.",
    remedy="Start the container with an init (`docker run --init`), or end the parent.",
)

STALE_SHARED_MEMORY: Final = Rule(
    id="doctor/stale-shared-memory",
    severity=Severity.NOTE,
    meaning="Files in /dev/shm are open in no process, so a killed one has left them. They hold "
    "memory until somebody removes them.",
    remedy="Remove those that are named. A container that shares /dev/shm with others does not see "
    "their processes: look there first.",
)

OWN_DIRECTORIES: Final = Rule(
    id="doctor/own-directories",
    severity=Severity.NOTE,
    meaning="A run of ci-doctor was killed and has left its temporary directory. A running ci-doctor "
    "holds a lock on its directory, so this one is of no use to anybody.",
    remedy="ci-doctor doctor --fix",
)

UNFINISHED_DOWNLOADS: Final = Rule(
    id="doctor/unfinished-downloads",
    severity=Severity.NOTE,
    meaning="The cache of Hugging Face holds parts of files whose download was cut off. No process "
    "writes them any more. A later download begins anew or goes on with them.",
    remedy="Remove them if the disk is short.",
)

STALE_BUILD_LOCK: Final = Rule(
    id="doctor/stale-build-lock",
    severity=Severity.WARNING,
    meaning="torch.utils.cpp_extension builds under a lock, a file named `lock`. A killed build "
    "leaves the file, and each later one waits for its removal without end.",
    remedy="Remove the file.",
)

STALE_BYTECODE: Final = Rule(
    id="doctor/stale-bytecode",
    severity=Severity.NOTE,
    meaning="The checkout has bytecode of modules whose source is gone. A `.pyc` beside the sources "
    "can still be imported, and a folder that holds only `__pycache__` is an empty package.",
    remedy="Remove bytecode and empty folders: git clean -xdf -- '*.pyc' '*__pycache__*'",
)

RULES: Final[tuple[Rule, ...]] = (
    STALE_PROCESSES,
    OTHER_JOB,
    ZOMBIES,
    STALE_SHARED_MEMORY,
    OWN_DIRECTORIES,
    UNFINISHED_DOWNLOADS,
    STALE_BUILD_LOCK,
    STALE_BYTECODE,
)

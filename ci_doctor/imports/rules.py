# SPDX-License-Identifier: Apache-2.0
"""The rules of findings about imports in several threads. Pure."""

from typing import Final

from ci_doctor.imports.hazards import KINDS
from ci_doctor.model.finding import Rule, Severity
from ci_doctor.model.verdict import Meaning

ABOUT: Final = Meaning(
    meaning="Two threads import at the same time, and one of them is handed an incomplete module. "
    "The error is `cannot import name 'X' from partially initialized module 'Y'`, `partially "
    "initialized module 'Y' has no attribute 'X'`, or, of a module that replaces itself as "
    "transformers does, `cannot import name 'X' from 'Y'`. If it comes in some runs only, threads "
    "race. If it comes in every run, it is an import cycle, or the name does not exist.",
    remedy="First `ci-doctor import-race probe Y:X` tests whether this interpreter can lose that "
    "import to another thread. Then put `ci-doctor import-race --confirm --` before the command "
    "that failed. It finds the two imports and the place that starts the thread, makes the race "
    "happen, and prints the preload rule or the import to move. At last, `ci-doctor preload "
    "install --rule RULE` puts the rule into the interpreter, or `ci-doctor run --preload RULE --` "
    "before a command.",
)

NOT_FOLLOWED: Final = Rule(
    id="import-race/not-followed",
    severity=Severity.WARNING,
    meaning="The command started a Python that does not load the recorder, because of `-I`, `-E`, "
    "`-S` or its own environment. Its imports are not known.",
    remedy="Start it without that option or environment while you look for import races.",
)
NOT_RECORDED: Final = Rule(
    id="import-race/not-recorded",
    severity=Severity.WARNING,
    meaning="No Python recorded its imports, or a record cannot be read. Nothing is known.",
    remedy="Give a command that starts a Python without `-I`, `-E` and `-S`, and record again.",
)
NOT_JUDGED: Final = Rule(
    id="import-race/not-judged",
    severity=Severity.WARNING,
    meaning="Several greenlets of one thread import (gevent, eventlet, SQLAlchemy's asyncio), or an "
    "interpreter runs without the GIL. ci-doctor tells only threads apart, so nothing is known.",
    remedy="Record the program with ordinary threads (gunicorn `-k gthread`, no monkey patching). "
    "Import what greenlets need before the first of them starts.",
)
COMMAND_FAILED: Final = Rule(
    id="import-race/command-failed",
    severity=Severity.WARNING,
    meaning="The command itself failed, so it may have ended before some of its imports.",
    remedy="Repair the command, or give one that succeeds, and record again.",
)
NOT_SETTLED: Final = Rule(
    id="import-race/not-settled",
    severity=Severity.WARNING,
    meaning="A hazard exists, and the runs with a delay could not decide it. Either no run made "
    "the delay, or the run did not come to its end, or there were more hazards than "
    "`--candidates`.",
    remedy="Run it again with a higher `--candidates`, or with a command that does the same in "
    "every run.",
)

RULES: Final = (
    *(kind.rule for kind in KINDS.values()),
    NOT_FOLLOWED,
    NOT_RECORDED,
    NOT_JUDGED,
    COMMAND_FAILED,
    NOT_SETTLED,
)

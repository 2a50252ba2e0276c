# SPDX-License-Identifier: Apache-2.0
"""The rules of findings about imports in several threads. Pure."""

from typing import Final

from ci_doctor.model.finding import Severity
from ci_doctor.model.meaning import Meaning
from ci_doctor.model.rule import Rule

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
    "before a command. See docs/import-race.md.",
)

SELF_REPLACING: Final = Rule(
    id="import-race/self-replacing",
    severity=Severity.WARNING,
    meaning="A module replaces itself in `sys.modules` while its code runs. Two threads import "
    "it, and nothing orders the two imports. CPython hands a thread that waits for the other "
    "one's import the discarded module: `cannot import name …`.",
    remedy="Import the module on the main thread, with the names that are used, before the other "
    "thread starts. The preload rule in the finding does that without a change to the program.",
)
CYCLE: Final = Rule(
    id="import-race/cycle",
    severity=Severity.WARNING,
    meaning="Modules import each other. Two threads enter the cycle at different modules, and "
    "nothing orders the two imports. CPython ends the deadlock by handing out an incomplete "
    "module.",
    remedy="Import the first module of the cycle on the main thread before the other thread "
    "starts, or break the cycle.",
)
SUBMODULE_ORDER: Final = Rule(
    id="import-race/submodule-order",
    severity=Severity.WARNING,
    meaning="A package imports its own submodule. One thread imports the package and another one "
    "the submodule, and nothing orders the two imports. Each thread locks what the other one "
    "needs, and CPython ends the deadlock with an incomplete module or a KeyError.",
    remedy="Import the package on the main thread before the other thread starts.",
)
FAILED_IMPORT: Final = Rule(
    id="import-race/failed-import",
    severity=Severity.WARNING,
    meaning="The import of a module fails in one thread. Another thread imports the module too, "
    "and nothing orders the two imports. If it waits for the first one, it receives the removed, "
    "incomplete module instead of the error.",
    remedy="Repair the import that fails, or make it on the main thread before the other thread "
    "starts.",
)
RELOAD: Final = Rule(
    id="import-race/reload",
    severity=Severity.WARNING,
    meaning="`importlib.reload` executes a module again in one thread. Another thread has imported "
    "the module, and nothing orders the two. That thread may see old and new objects side by side.",
    remedy="Reload a module only while no other thread uses it.",
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
INTERPRETER_IMMUNE: Final = Rule(
    id="import-race/interpreter-immune",
    severity=Severity.NOTE,
    meaning="Two threads import a module that replaces itself, but this interpreter looks at "
    "`sys.modules` again after the wait and hands out the right module. ci-doctor checks that by "
    "a race of its own.",
    remedy="Nothing for this interpreter. An interpreter without the fix (gh-143650) is still "
    "exposed.",
)
COMMAND_FAILED: Final = Rule(
    id="import-race/command-failed",
    severity=Severity.WARNING,
    meaning="The command itself failed, so it may have ended before some of its imports.",
    remedy="Repair the command, or give one that succeeds, and record again.",
)
NOT_CONFIRMED: Final = Rule(
    id="import-race/not-confirmed",
    severity=Severity.NOTE,
    meaning="A hazard exists, but no delay made it fire. Either something orders the two imports "
    "that the recorder does not know, or the race does no harm.",
    remedy="Nothing, if you know what orders the two imports.",
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
    SELF_REPLACING,
    CYCLE,
    SUBMODULE_ORDER,
    FAILED_IMPORT,
    RELOAD,
    NOT_FOLLOWED,
    NOT_RECORDED,
    NOT_JUDGED,
    INTERPRETER_IMMUNE,
    COMMAND_FAILED,
    NOT_CONFIRMED,
    NOT_SETTLED,
)

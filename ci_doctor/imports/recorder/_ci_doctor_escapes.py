# SPDX-License-Identifier: Apache-2.0
"""Runs in other interpreters: notes the start of a Python that will not be recorded, by its options or its environment."""

import sys
from time import monotonic_ns

from _ci_doctor_trace import process, record, thread  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Where an audit event has the arguments and the environment of a new process (docs.python.org/3/library/audit_events.html).
STARTS = {"subprocess.Popen": (1, 3), "os.exec": (1, 2), "os.posix_spawn": (1, 2)}
ISOLATING = "IES"
LAST = "cm"
WITH_VALUE = "WX"
last: "list[str]" = []


def on_audit(name: str, values: "tuple[Any, ...]") -> None:
    """The audit hook: everything but the start of a process passes at once."""
    if name in STARTS:
        arguments, environment = STARTS[name]
        try:
            note(values[arguments], values[environment])
        except Exception:  # noqa: BLE001 - arguments of any kind
            pass


def note(arguments: "Any", environment: "Any") -> None:
    """Record the new process if it is a Python that escapes."""
    words = text(arguments).split() if isinstance(arguments, (str, bytes)) else [text(word) for word in arguments]
    if len(words) > 2 and words[1] == "-c" and words[0].endswith("sh"):
        words = words[2].split()
    starts = [index for index, word in enumerate(words) if is_python(word)]
    if not starts:
        return
    why = isolation(words[starts[0] + 1 :])
    if why is None and environment is not None and not has_ours(environment):
        why = "clean environment"
    if why is not None and words != last:  # subprocess tells twice: of itself, and of posix_spawn
        last[:] = words
        record("escape", monotonic_ns(), thread.number, tuple(words), why)
        process.write()


def is_python(word: str) -> bool:
    """Whether a program's name is that of a Python."""
    name = word.rpartition("/")[2]
    return name.startswith("python") and not name[6:].strip("0123456789.t")


def isolation(options: "list[str]") -> "str | None":
    """The first of the options after which PYTHONPATH is not read, or site not run."""
    skip = False
    for word in options:
        if skip:
            skip = False
            continue
        if not word.startswith("-") or word in ("-", "--"):
            return None
        for index, letter in enumerate(word[1:], 2):
            if letter in ISOLATING:
                return "-" + letter
            if letter in LAST or word.startswith("--"):
                return None
            if letter in WITH_VALUE:
                skip = index == len(word)
                break
    return None


def has_ours(environment: "Any") -> bool:
    """Whether the environment of a new process still names the recorder."""
    return any(text(name) == "CI_DOCTOR_INJECT" for name in environment)


def text(word: "Any") -> str:
    """A word of a command line, given as text, bytes or a path."""
    return word.decode("utf-8", "replace") if isinstance(word, bytes) else str(word)


sys.addaudithook(on_audit)

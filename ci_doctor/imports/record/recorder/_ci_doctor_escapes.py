# SPDX-License-Identifier: Apache-2.0
"""Runs in other interpreters: notes the start of a Python that will not be recorded, by its options or its environment."""

import sys
from os import environ
from time import monotonic_ns

import _ci_doctor_order as order  # type: ignore[import-not-found]
from _ci_doctor_trace import process, record, thread  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Where an audit event has the arguments and the environment of a new process (docs.python.org/3/library/audit_events.html).
STARTS = {
    "subprocess.Popen": (1, 3),
    "os.exec": (1, 2),
    "os.posix_spawn": (1, 2),
    "os.system": (0, None),
}
ISOLATING = "IES"
LAST = "cm"
WITH_VALUE = "WX"
CLEANING = ("-", "-i", "--ignore-environment")
FOLDER = str(getattr(sys.modules.get("sitecustomize"), "__file__", "")).rpartition("/")[
    0
]  # where ours lies
last: "list[str]" = []


def on_audit(name: str, values: "tuple[Any, ...]") -> None:
    """The audit hook: everything but the start of a process passes at once."""
    if name in STARTS:
        arguments, environment = STARTS[name]
        try:
            note(values[arguments], None if environment is None else values[environment])
        except Exception:  # noqa: BLE001 - arguments of any kind
            pass


def note(arguments: "Any", environment: "Any") -> None:
    """Record the new process if it is a Python that escapes. It has our environment, as it is now, where it is given none."""
    words = (
        text(arguments).split()
        if isinstance(arguments, (str, bytes))
        else [text(word) for word in arguments]
    )
    if len(words) > 2 and words[1] == "-c" and words[0].endswith("sh"):
        words = words[2].split()
    starts = [index for index, word in enumerate(words) if is_python(word)]
    if not starts:
        return
    why = isolation(words[starts[0] + 1 :]) or lost(
        words[: starts[0]], environ if environment is None else environment
    )
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


def lost(before: "list[str]", environment: "Any") -> "str | None":
    """Why a new process does not find the recorder in its environment, of which `before` is left: what starts the Python."""
    program = before[0].rpartition("/")[2] if before else ""
    if program == "sudo" or (program == "env" and any(word in CLEANING for word in before)):
        return "clean environment"
    # The audit event of subprocess has a mapping, those of the others may have one of bytes.
    known = {text(name): text(environment[name]) for name in environment}
    if "CI_DOCTOR_INJECT" not in known:
        return "clean environment"
    if FOLDER and FOLDER not in known.get("PYTHONPATH", "").split(":"):
        return "PYTHONPATH of its own"
    return None


def text(word: "Any") -> str:
    """A word of a command line, given as text, bytes or a path."""
    return word.decode("utf-8", "replace") if isinstance(word, bytes) else str(word)


def of_spawning(util: "Any") -> None:
    """`multiprocessing` starts its processes by a way that no audit event tells of."""

    def noting(original: "Any") -> "Any":
        def spawnv_passfds(path: "Any", arguments: "Any", descriptors: "Any") -> "Any":
            on_audit("os.exec", (path, arguments, None))
            return original(path, arguments, descriptors)

        return spawnv_passfds

    order.replace(util, "spawnv_passfds", noting)


order.WATCHED["multiprocessing.util"] = of_spawning
sys.addaudithook(on_audit)

# SPDX-License-Identifier: Apache-2.0
"""Reads `ci-doctor-quarantine.toml`: tests that run, are reported, and do not decide. And the `[pytest]` section."""

import datetime as dt
import itertools
import os
import shlex
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Struct

from ci_doctor.decodable import decodable
from ci_doctor.errors import ConfigError
from ci_doctor.model.outcome import dotted, junit_identity


class PytestSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person writes (docs/pytest.md). rerun_budget: a duration; None for one by that of the suite."""

    rerun_budget: str | None = None


# --- node ids of pytest in the forms that reports and shells need ---


def group_and_name(test: str) -> tuple[str, str]:
    """The class name and the name of a test case, as pytest's own JUnit file has them.

    A file that could not be collected has its own name as class name.
    """
    group, name = junit_identity(test)
    return group or dotted(test), name


# Options of pytest with a value that decide what a test is and how it is loaded.
_SHAPING: Final = (
    "-c",
    "-o",
    "-p",
    "--config-file",
    "--confcutdir",
    "--import-mode",
    "--override-ini",
    "--rootdir",
)
# With the value in the same word: `-pno:x`, `--rootdir=x`.
_JOINED: Final = tuple(name if len(name) == 2 else f"{name}=" for name in _SHAPING)


def shaping_options(args: Sequence[str]) -> tuple[str, ...]:
    """Those of `args`, the arguments of pytest, without which a test is another one or is not there."""
    kept: list[str] = []
    words = iter(args)
    for word in words:
        if word == "--":
            break
        if word in _SHAPING:
            kept += [word, *itertools.islice(words, 1)]
        elif word.startswith(_JOINED):
            kept.append(word)
    return tuple(kept)


def command_of(
    python: Path, test: str, root: str | None, directory: Path, options: Sequence[str] = ()
) -> str:
    """A shell command that runs the test alone, in `directory`; node ids are relative to `root`."""
    name = test
    if root is not None and Path(root) != directory:
        prefix = os.path.relpath(root, directory)
        name = os.path.join(prefix, test)  # noqa: PTH118 - the rest is no path
    return shlex.join([str(python), "-m", "pytest", *options, name])


def explain_command(python: Path, args: Sequence[str], seed: int | None) -> str:
    """The command that names the culprit of an order, from the directory of the run.

    seed: of pytest-randomly; without it the tests would come in another order.
    """
    words = ["ci-doctor", "pytest", "--explain-flaky", "--python", str(python), "--", *args]
    if seed is not None and not any(word.startswith("--randomly-seed") for word in args):
        words.append(f"--randomly-seed={seed}")
    return shlex.join(words)


# --- tests that run, are reported, and do not decide ---

MOST_DAYS = 90


class QuarantineEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """test: a node id, or a name as in JUnit files; `*` stands for any characters. until: the last day on which it holds."""

    test: str
    reason: str
    # `history quarantine suggest` leaves it empty: whoever takes the entry over names somebody.
    owner: Annotated[str, msgspec.Meta(min_length=1)]
    until: dt.date


class _QuarantineFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    quarantine: tuple[QuarantineEntry, ...] = ()


class Quarantine(Struct, frozen=True, kw_only=True):
    """The entries by what they are worth today: `held` by node id; `over`; `unused`.

    left_out: entries about tests that this run was not to run. wide: entries that hold with how many tests they match. long: entries that hold for more than MOST_DAYS.
    """

    held: dict[str, QuarantineEntry] = {}
    over: tuple[QuarantineEntry, ...] = ()
    unused: tuple[QuarantineEntry, ...] = ()
    left_out: tuple[QuarantineEntry, ...] = ()
    wide: tuple[tuple[QuarantineEntry, int], ...] = ()
    long: tuple[QuarantineEntry, ...] = ()


def read_quarantine(path: Path) -> tuple[QuarantineEntry, ...]:
    """The entries of the file at `path`; none if there is no such file.

    Raises ConfigError if it cannot be read, or if an entry lacks its test, reason, owner or date.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    try:
        return msgspec.toml.decode(data, type=decodable(_QuarantineFile)).quarantine
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise ConfigError(
            f"{path}: {error}",
            hint='write for each test: [[quarantine]], test = "…", reason = "…", owner = "…", '
            "until = 2026-12-31",
        ) from error


def quarantine(
    entries: Sequence[QuarantineEntry],
    tests: Collection[str],
    today: dt.date,
    *,
    deselected: Collection[str] = (),
    has_places: bool = False,
) -> Quarantine:
    """What `entries` mean for `tests` on the day `today`. Pure.

    An entry past its date holds no test. deselected: what `-k` left out. has_places: the run was of some
    files or folders, so that others may hold the test of an entry.
    """
    files = {test.partition("::")[0] for test in (*tests, *deselected)}
    begins = tuple(
        each for file in files for each in (f"{file}::", f"{dotted(file)}::", f"{dotted(file)}.")
    )
    held: dict[str, QuarantineEntry] = {}
    over = []
    unused: list[QuarantineEntry] = []
    left_out: list[QuarantineEntry] = []
    wide = []
    long = []
    for entry in entries:
        matching = [test for test in tests if matches(entry, test)]
        if entry.until < today:
            over.append(entry)
        elif not matching:
            # A file of the run has no test of this name, and another file may have one.
            is_elsewhere = has_places and not entry.test.startswith(begins)
            is_left_out = is_elsewhere or any(matches(entry, test) for test in deselected)
            (left_out if is_left_out else unused).append(entry)
        else:
            held.update(dict.fromkeys(matching, entry))
            if is_wide(entry, matching, len(tests)):
                wide.append((entry, len(matching)))
            # A difference of dates, because a date this far off may be past the last one.
            if (entry.until - today).days > MOST_DAYS:
                long.append(entry)
    return Quarantine(
        held=held,
        over=tuple(over),
        unused=tuple(unused),
        left_out=tuple(left_out),
        wide=tuple(wide),
        long=tuple(long),
    )


def is_wide(entry: QuarantineEntry, matching: Collection[str], tests: int) -> bool:
    """Whether a pattern names nothing, or more than half of the tests, of several functions. Pure.

    The parameters of one test may be all that a small run has.
    """
    if not any(letter.isalnum() for letter in entry.test):
        return True
    functions = {test.partition("[")[0] for test in matching}
    return "*" in entry.test and len(functions) > 1 and 2 * len(matching) > tests


def matches(entry: QuarantineEntry, test: str) -> bool:
    """Whether `entry` is about the test with this node id.

    The entry may name it as JUnit files do, and so `history quarantine suggest`:
    `tests.test_a.TestX::test_y`. Brackets are no sets of characters: they stand in the ids of
    parametrised tests.
    """
    pattern = entry.test.replace("[", "[[]")
    names = (test, "::".join(group_and_name(test)))
    return entry.test in names or (
        "*" in pattern and any(fnmatchcase(name, pattern) for name in names)
    )

# SPDX-License-Identifier: Apache-2.0
"""Reads and writes the file of known violations."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from ci_doctor.decodable import decodable
from ci_doctor.errors import ConfigError
from ci_doctor.lint.lint_rule import Violation
from ci_doctor.system.files.opening import read_regular
from ci_doctor.system.files.writing import write_atomically

_VERSION = 1
_DIGITS = 16  # of a SHA-256: 64 bits


class BaselineEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`count` violations of `rule` in `file` at lines with one text, wherever they stand."""

    rule: str
    file: str
    excerpt: str
    count: int


class LintBaseline(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a baseline file."""

    version: int = _VERSION
    entries: tuple[BaselineEntry, ...] = ()


class Subtraction(Struct, frozen=True, kw_only=True):
    """The violations that are new, the number of the known ones, and entries with nothing left."""

    new: tuple[Violation, ...]
    known: int
    stale: tuple[BaselineEntry, ...]


_Key = tuple[str, str, str]


def baseline_of(violations: Iterable[Violation]) -> LintBaseline:
    """The baseline that `violations` make."""
    counts = Counter(_key(violation) for violation in violations)
    entries = []
    for (rule, file, excerpt), count in sorted(counts.items()):
        entries.append(BaselineEntry(rule=rule, file=file, excerpt=excerpt, count=count))
    return LintBaseline(entries=tuple(entries))


def subtract(
    violations: Iterable[Violation],
    baseline: LintBaseline,
    is_judged: Callable[[BaselineEntry], bool],
) -> Subtraction:
    """`violations` without those of `baseline`, one for each that it counts.

    is_judged: whether this run has looked at the place of an entry; else it cannot be stale.
    """
    left: Counter[_Key] = Counter()
    for entry in baseline.entries:
        left[(entry.rule, entry.file, entry.excerpt)] += entry.count
    new = []
    known = 0
    for violation in violations:
        key = _key(violation)
        if left[key] > 0:
            left[key] -= 1
            known += 1
        else:
            new.append(violation)
    stale = []
    for entry in baseline.entries:
        is_left = left[(entry.rule, entry.file, entry.excerpt)] > 0
        if is_left and is_judged(entry):
            stale.append(entry)
    return Subtraction(new=tuple(new), known=known, stale=tuple(stale))


def encode_baseline(baseline: LintBaseline) -> bytes:
    """`baseline` as JSON with an entry per line, so that two branches can be merged."""
    lines = [msgspec.json.encode(entry).decode() for entry in baseline.entries]
    body = ",\n".join(lines)
    return f'{{"version":{baseline.version},"entries":[\n{body}\n]}}\n'.encode()


def decode_baseline(content: bytes, name: str) -> LintBaseline:
    """The baseline in `content`. Raises ConfigError, which calls the file `name`."""
    hint = f"write it again: ci-doctor lint --write-baseline {name}"
    try:
        baseline = msgspec.json.decode(content, type=decodable(LintBaseline))
    except msgspec.DecodeError as error:
        raise ConfigError(f"{name}: not a baseline of lint: {error}", hint=hint) from error
    if baseline.version != _VERSION:
        raise ConfigError(f"{name}: version {baseline.version} of a baseline is unknown", hint=hint)
    return baseline


def _key(violation: Violation) -> _Key:
    """What stays the same if lines move and spaces change."""
    # A violation of several files may have no line of its own.
    text = " ".join((violation.excerpt or violation.summary).split())
    digest = hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()
    file = violation.place.file.encode(errors="surrogateescape").decode(errors="replace")
    return (violation.rule.id, file, digest[:_DIGITS])


# The file itself.


def read_baseline(path: Path) -> LintBaseline:
    """The baseline at `path`. Raises ConfigError if it is missing or no baseline."""
    try:
        content = read_regular(path)
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read: {error.strerror or error}",
            hint=f"write it: ci-doctor lint --write-baseline {path}",
        ) from error
    return decode_baseline(content, str(path))


def write_baseline(path: Path, baseline: LintBaseline) -> None:
    """Write `baseline` to `path`. Raises UsageError if that is not possible."""
    write_atomically(path, encode_baseline(baseline))

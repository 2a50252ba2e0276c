# SPDX-License-Identifier: Apache-2.0
"""Pure. A change of an environment as a value, and how people read it."""

from enum import IntEnum, StrEnum
from typing import Final, assert_never

from msgspec import Struct

_ABSENT: Final = "absent"
# A list of system packages or of paths is longer than a line.
_LONGEST_VALUE: Final = 100
_FILES_IN_A_SENTENCE: Final = 5


class Suspicion(IntEnum):
    """What a change may have done, the worst first."""

    COMPARABILITY = 0
    FAILURE = 1
    INFORMATION = 2


class ChangeKind(StrEnum):
    """`bytes`: the same version has other files."""

    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"
    BYTES = "bytes"


class ChangeArea(StrEnum):
    """Where a change is; what `env diff --only` names."""

    PACKAGES = "packages"
    MACHINE = "machine"
    VARIABLES = "variables"
    SYSTEM = "system"


class FileChange(Struct, frozen=True, kw_only=True):
    """A file of a package whose version stayed: the hash on each side, None without the file."""

    path: str
    before: str | None
    after: str | None


class EnvironmentChange(Struct, frozen=True, kw_only=True):
    """One difference between two environments.

    `subject` is a package, a fact or a variable. `before` and `after` are None on the side without
    it. `row` is its place within its suspicion. `address` leads to a list of changes. `place` is the
    interpreter, if there are several. `went_back`: the version is lower than before.
    """

    area: ChangeArea
    subject: str
    kind: ChangeKind
    suspicion: Suspicion
    row: int
    before: str | None = None
    after: str | None = None
    address: str | None = None
    place: str | None = None
    went_back: bool = False
    files: tuple[FileChange, ...] = ()


class OneSided(Struct, frozen=True, kw_only=True):
    """A fact that only one side knows: whether it differs cannot be said.

    `known` is its value there; `unknown_in` is `before` or `after`.
    """

    area: ChangeArea
    subject: str
    suspicion: Suspicion
    unknown_in: str
    reason: str
    known: str | None = None


class Drift(Struct, frozen=True, kw_only=True):
    """All differences of two snapshots, the most suspicious first.

    `contents_compared`: the contents of installed files were compared, not only their RECORD.
    """

    changes: tuple[EnvironmentChange, ...] = ()
    one_sided: tuple[OneSided, ...] = ()
    contents_compared: bool = False


def sentence(change: EnvironmentChange) -> str:
    """`transformers 5.4.0 -> 5.5.0`, and the address of its changes."""
    text = _described(change)
    if change.place is not None:
        text += f" ({change.place})"
    if change.address is not None and change.kind is not ChangeKind.REMOVED:
        text += f" {change.address}"
    return text


def short_phrase(change: EnvironmentChange) -> str:
    """`transformers 5.4 to 5.5`: for a sentence that names several."""
    match change.kind:
        case ChangeKind.CHANGED:
            before = _short(change.before)
            after = _short(change.after)
            if before == after:
                before, after = _cut(change.before), _cut(change.after)
            return f"{change.subject} {before} to {after}"
        case ChangeKind.ADDED:
            return f"{change.subject} {_short(change.after)} added".replace("  ", " ")
        case ChangeKind.REMOVED:
            return f"{change.subject} removed"
        case ChangeKind.BYTES:
            return f"other bytes in {change.subject} {_short(change.after)}"
        case _ as never:
            assert_never(never)


def _described(change: EnvironmentChange) -> str:
    match change.kind:
        case ChangeKind.CHANGED:
            text = f"{change.subject} {_cut(change.before)} -> {_cut(change.after)}"
            return f"{text}, an older version" if change.went_back else text
        case ChangeKind.ADDED:
            return f"{change.subject} {_cut(change.after)} added".replace("  ", " ")
        case ChangeKind.REMOVED:
            return f"{change.subject} {_cut(change.before)} removed".replace("  ", " ")
        case ChangeKind.BYTES:
            return _bytes_sentence(change)
        case _ as never:
            assert_never(never)


def _bytes_sentence(change: EnvironmentChange) -> str:
    paths = [file.path for file in change.files]
    names = ", ".join(paths[:_FILES_IN_A_SENTENCE])
    more = len(paths) - _FILES_IN_A_SENTENCE
    if more > 0:
        names += f" and {more} more"
    return f"{change.subject} {change.after or ''}: the same version, other bytes: {names}"


def _short(value: str | None) -> str:
    """A version without the zeros at its end: `5.4` for `5.4.0`."""
    text = _cut(value)
    parts = text.split(".")
    if all(part.isdigit() for part in parts):
        while len(parts) > 2 and parts[-1] == "0":
            parts.pop()
        return ".".join(parts)
    return text


def _cut(value: str | None) -> str:
    text = _ABSENT if value is None else value
    if len(text) <= _LONGEST_VALUE:
        return text
    return f"{text[: _LONGEST_VALUE - 1]}…"

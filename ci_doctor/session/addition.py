# SPDX-License-Identifier: Apache-2.0
"""Acts on files: what a command adds to its report at the end, whatever the outcome is.

It has no verdict and no error, so it can change neither.
"""

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.errors import UsageError
from ci_doctor.model.about import About
from ci_doctor.model.finding import Finding
from ci_doctor.model.outcome import Attachment, Outcome, concluded
from ci_doctor.model.table import Row, Table
from ci_doctor.system.files.writing import write_atomically


class AddedFile(Struct, frozen=True, kw_only=True):
    """A file of the report directory, with the title of its attachment."""

    name: str
    title: str
    content: bytes
    media_type: str = "application/json"


class Addition(Struct, frozen=True, kw_only=True):
    """Tables and files for a report. `text` is for a command that prints its own text.

    `about` is what the report is about, if that has been read already.
    """

    tables: tuple[Table, ...] = ()
    files: tuple[AddedFile, ...] = ()
    text: str = ""
    about: About | None = None

    def to(self, outcome: Outcome) -> Outcome:
        """`outcome` with what is added, behind its own."""
        if not self.tables and not self.files:
            return outcome
        attachments = [
            Attachment(path=file.name, title=file.title, media_type=file.media_type)
            for file in self.files
        ]
        return replace(
            outcome,
            tables=(*outcome.tables, *self.tables),
            attachments=(*outcome.attachments, *attachments),
        )


NOTHING = Addition()


def added(
    add: Callable[[Outcome], Addition],
    outcome: Outcome,
    findings: tuple[Finding, ...],
    directory: Path,
) -> Addition:
    """What `add` makes of the outcome as it will be reported, with its files written.

    `findings` come on top of the outcome's. Raises nothing: what goes wrong is a line of a table.
    """
    verdict, _ = concluded(outcome.verdict, outcome.summary, (*outcome.findings, *findings))
    try:
        addition = add(replace(outcome, verdict=verdict))
        return _written(addition, directory)
    # An addition must not take the report away.
    except Exception as error:  # noqa: BLE001
        return not_added(f"{type(error).__name__}: {error}")


def remove_files(directory: Path, names: Iterable[str]) -> None:
    """Remove an earlier run's files of these names, if that is possible."""
    for name in names:
        with contextlib.suppress(OSError):
            (directory / name).unlink(missing_ok=True)


def _written(addition: Addition, directory: Path) -> Addition:
    for file in addition.files:
        try:
            write_atomically(directory / file.name, file.content, is_durable=False)
        except (UsageError, OSError) as error:
            problem = not_added(str(error))
            return replace(addition, files=(), tables=(*addition.tables, *problem.tables))
    return addition


def not_added(reason: str) -> Addition:
    """A line that tells why something is missing."""
    table = Table(title="Not added to this report", rows=(Row(label=f"unknown: {reason}"),))
    return Addition(tables=(table,))

# SPDX-License-Identifier: Apache-2.0
"""Reads the labelled logs: a folder with `manifest.jsonl`, one row a log."""

import json
from pathlib import Path

from msgspec import Struct


class LabelledLog(Struct, frozen=True, kw_only=True):
    """A log with the spans (first and last line, 1-based) that explain its failure."""

    id: str
    source: str
    repository: str
    path: Path
    spans: tuple[tuple[int, int], ...]
    category: str | None


def labelled_logs(folder: Path) -> list[LabelledLog]:
    """Every log of the manifest in `folder`."""
    logs = []
    for row in (folder / "manifest.jsonl").read_text("utf-8").splitlines():
        entry = json.loads(row)
        log = LabelledLog(
            id=entry["id"],
            source=entry["id"].split("/")[0],
            repository=_repository(entry["id"]),
            path=folder / entry["rel"],
            spans=tuple((label["start"], label["end"]) for label in entry["labels"]),
            category=entry["category"],
        )
        logs.append(log)
    return logs


def _repository(identifier: str) -> str:
    """What a fold may not tear apart: the repository where the source has one, else the log."""
    parts = identifier.split("/")
    if parts[0] == "logchunks":
        return parts[2]
    if parts[0] == "cidiff":
        return parts[2].rpartition("_")[0]
    return identifier


def is_named(spans: tuple[tuple[int, int], ...], line: int | None) -> bool:
    """Whether `line` is within a span, or at most two lines beside it."""
    if line is None:
        return False
    return any(first - 2 <= line <= last + 2 for first, last in spans)


def is_shown(spans: tuple[tuple[int, int], ...], line: int | None) -> bool:
    """Whether 40 lines around `line` hold a line of a span."""
    if line is None:
        return False
    return any(first <= line + 19 and last >= line - 20 for first, last in spans)

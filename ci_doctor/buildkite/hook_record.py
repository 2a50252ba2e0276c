# SPDX-License-Identifier: Apache-2.0
"""Acts on files: what the plugin's hooks have done in this job, for a plugin that is listed twice.

The records lie in the job's report directory, which no other job shares.
"""

import hashlib
import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from ci_doctor.errors import UsageError
from ci_doctor.system.files.writing import write_atomically

_PUBLISHED = ".published.json"
_BEGAN = ".began.json"
_COMMAND = ".command.json"


class HookStep(StrEnum):
    """What a plugin does once for each set of its options; the value is the name of the record."""

    PREPARED = ".prepared.json"
    DIAGNOSED = ".diagnosed.json"
    CACHED = ".caches.json"


def keep_done(root: Path, step: HookStep, words: Sequence[str]) -> None:
    """Keep that `step` was done with `words`, which stand for the options."""
    _keep(root / step, [*done_with(root, step), list(words)])


def done_with(root: Path, step: HookStep) -> list[object]:
    """The words with which `step` was done in this job; empty if it was not, or nobody knows."""
    kept = _kept(root / step)
    return kept if isinstance(kept, list) else []


def keep_began(root: Path, at: str) -> None:
    """Keep when the job's first hook began, RFC 3339; a later hook's time changes nothing."""
    if began_at(root) is None:
        _keep(root / _BEGAN, at)


def began_at(root: Path) -> str | None:
    """When the job's first hook began, RFC 3339.

    None if nobody kept it: the hooks may run in several containers, or the disk is full.
    """
    kept = _kept(root / _BEGAN)
    return kept if isinstance(kept, str) else None


def keep_command_status(root: Path, status: int) -> None:
    """Keep how the command ended, before a hook of ours changes it; the first one counts."""
    if command_status(root) is None:
        _keep(root / _COMMAND, status)


def command_status(root: Path) -> int | None:
    """How the command ended; None if no hook has kept it."""
    kept = _kept(root / _COMMAND)
    return kept if isinstance(kept, int) else None


def keep_published(root: Path, directories: Sequence[Path], *, annotated: bool) -> None:
    """Keep that the reports in `directories` are published as they are."""
    _keep(root / _PUBLISHED, {"annotated": annotated, "reports": _digests(directories)})


def was_published(root: Path, directories: Sequence[Path], *, annotated: bool) -> bool:
    """Whether these very reports are published, with annotations if those are wanted."""
    kept = _kept(root / _PUBLISHED)
    if not isinstance(kept, dict) or kept.get("reports") != _digests(directories):
        return False
    return bool(kept.get("annotated")) or not annotated


def _digests(directories: Sequence[Path]) -> dict[str, str]:
    reports = {each: (each / "report.json").read_bytes() for each in directories}
    return {str(each): hashlib.sha256(content).hexdigest() for each, content in reports.items()}


def _keep(path: Path, content: object) -> None:
    # Without a record the work is done twice, which is better than a job that fails.
    try:
        write_atomically(path, json.dumps(content).encode())
    except UsageError:
        return


def _kept(path: Path) -> object:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None

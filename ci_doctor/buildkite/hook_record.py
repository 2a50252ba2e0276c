# SPDX-License-Identifier: Apache-2.0
"""Acts on files: what the plugin's hooks have done in this job, for a plugin that is listed twice.

The records lie in the job's report directory, which no other job shares.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from ci_doctor.errors import UsageError
from ci_doctor.system.files.writing import write_atomically

_PREPARED = ".prepared.json"
_PUBLISHED = ".published.json"
_BEGAN = ".began.json"
_COMMAND = ".command.json"
_DIAGNOSED = ".diagnosed.json"
_CACHES = ".caches.json"


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


def keep_diagnosed(root: Path, words: Sequence[str]) -> None:
    """Keep that the failed command was diagnosed with `words`, which are the options."""
    _keep(root / _DIAGNOSED, [*_list(root / _DIAGNOSED), list(words)])


def was_diagnosed(root: Path, words: Sequence[str]) -> bool:
    """Whether the failed command was diagnosed with `words` in this job."""
    return list(words) in _list(root / _DIAGNOSED)


def keep_cached(root: Path, words: Sequence[str]) -> None:
    """Keep that the caches were moved by the command `words`."""
    _keep(root / _CACHES, [*_list(root / _CACHES), list(words)])


def was_cached(root: Path, words: Sequence[str]) -> bool:
    """Whether the caches were moved by this very command in this job."""
    return list(words) in _list(root / _CACHES)


def has_diagnosis(root: Path) -> bool:
    """Whether the failed command was diagnosed with any options in this job."""
    return bool(_list(root / _DIAGNOSED))


def _list(path: Path) -> list[object]:
    kept = _kept(path)
    return kept if isinstance(kept, list) else []


def keep_prepared(root: Path, words: Sequence[str]) -> None:
    """Keep that `setup-env` has run with `words`."""
    _keep(root / _PREPARED, list(words))


def was_prepared(root: Path, words: Sequence[str]) -> bool:
    """Whether `setup-env` has run with `words` in this job."""
    return _kept(root / _PREPARED) == list(words)


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
    digests = {}
    for directory in directories:
        content = (directory / "report.json").read_bytes()
        digests[str(directory)] = hashlib.sha256(content).hexdigest()
    return digests


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

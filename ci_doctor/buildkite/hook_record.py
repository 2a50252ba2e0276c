# SPDX-License-Identifier: Apache-2.0
"""Acts on files: what the plugin's hooks have done in this job, for a plugin that is listed twice.

The records lie in the job's report directory, which no other job shares.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from ci_doctor.errors import UsageError
from ci_doctor.system.files.atomic import write_atomically

_PREPARED = ".prepared.json"
_PUBLISHED = ".published.json"


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
    found = {}
    for directory in directories:
        content = (directory / "report.json").read_bytes()
        found[str(directory)] = hashlib.sha256(content).hexdigest()
    return found


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

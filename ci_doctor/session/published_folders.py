# SPDX-License-Identifier: Apache-2.0
"""Acts on files: the report directories that one job has published, by whatever call of ours.

A job has one annotation, and several calls may publish: `ci-doctor report --publish` in its
command, and the last hook of each instance of the plugin. The last call shows the reports of all.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from ci_doctor.errors import UsageError
from ci_doctor.session.report_directory import ROOT_VARIABLE
from ci_doctor.system.files.writing import write_atomically

_FILE = ".folders.json"


def published_elsewhere(job_id: str, own: Sequence[Path]) -> list[Path]:
    """The directories that this job has published before, beside its `own`, which are kept now.

    Nothing without `$CI_DOCTOR_REPORT_DIR`, where they are kept.
    """
    root = os.environ.get(ROOT_VARIABLE)
    if not root:
        return []
    path = Path(root) / _FILE
    known = _kept(path, job_id)
    names = [str(each.absolute()) for each in own]
    others = [each for each in known if each not in names]
    if set(names) - set(known):
        _keep(path, job_id, [*others, *names])
    return [Path(each) for each in others]


def _keep(path: Path, job_id: str, names: list[str]) -> None:
    content = json.dumps({"job": job_id, "folders": names}).encode()
    # Without it, the last call shows its own reports alone.
    try:
        write_atomically(path, content)
    except (OSError, UsageError):
        return


def _kept(path: Path, job_id: str) -> list[str]:
    try:
        kept = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return []
    # Another job may have had the same directory.
    if not isinstance(kept, dict) or kept.get("job") != job_id:
        return []
    folders = kept.get("folders")
    if not isinstance(folders, list):
        return []
    return [each for each in folders if isinstance(each, str)]

# SPDX-License-Identifier: Apache-2.0
"""Acts on files: writes what `repair` has planned, if a file is still what it was."""

import stat
from collections.abc import Mapping
from pathlib import Path

from ci_doctor.errors import UsageError
from ci_doctor.lint.repair import FileRepair, RepairPlan
from ci_doctor.lint.repository_texts import read_source
from ci_doctor.system.files.writing import write_atomically


def write_repairs(root: Path, plan: RepairPlan) -> Mapping[str, str]:
    """Write the files of `plan`, each as a whole and with its mode; the reasons of those not written."""
    refused = {}
    for each in plan.files:
        reason = _not_written(root, each)
        if reason is not None:
            refused[each.source.file] = reason
    return refused


def _not_written(root: Path, repair: FileRepair) -> str | None:
    source = repair.source
    path = root / source.file
    if read_source(root, source.file) != source:
        return "it has changed since it was read"
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        write_atomically(path, source.encoded(repair.text), mode=mode)
    except UsageError as error:
        return error.message
    except OSError as error:
        return error.strerror or str(error)
    return None

# SPDX-License-Identifier: Apache-2.0
"""Acts on files: keeps what the command wrote beside the report that quotes it."""

from pathlib import Path
from typing import TYPE_CHECKING

from ci_doctor.errors import CiDoctorError
from ci_doctor.finished_job.diagnose_job import OUTPUT_NAME
from ci_doctor.system.files.writing import write_atomically
from ci_doctor.system.secrets.log_files import redact_files

if TYPE_CHECKING:
    from ci_doctor.system.secrets.redaction import Redactor

# Nobody else reads it before its secrets are out.
_PRIVATE = 0o600
_PUBLIC = 0o644


def keep_output(directory: Path, output: bytes, redactor: "Redactor") -> bool:
    """Write `output` without secrets to output.log in `directory`; False if that failed."""
    path = directory / OUTPUT_NAME
    try:
        write_atomically(path, output, mode=_PRIVATE)
        if redact_files([path], redactor):
            return False
        path.chmod(_PUBLIC)
    except (CiDoctorError, OSError):
        path.unlink(missing_ok=True)
        return False
    return True

# SPDX-License-Identifier: Apache-2.0
"""Acts on files: reads and writes the baseline of lint."""

from pathlib import Path

from ci_doctor.errors import ConfigError
from ci_doctor.lint.baseline import LintBaseline, decode_baseline, encode_baseline
from ci_doctor.system.files.opening import read_regular
from ci_doctor.system.files.writing import write_atomically


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

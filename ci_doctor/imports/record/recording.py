# SPDX-License-Identifier: Apache-2.0
"""The environment in which every Python records its imports. Pure."""

from collections.abc import Mapping
from pathlib import Path

from ci_doctor.preload.injection import injected

DIRECTORY = "CI_DOCTOR_IMPORT_RACE"
HOLD = "CI_DOCTOR_IMPORT_RACE_HOLD"
FOLDER = Path(__file__).parent / "recorder"
# In this order: each uses those before it.
FILES = tuple(
    FOLDER / f"_ci_doctor_{name}.py" for name in ("trace", "hold", "order", "escapes", "imports")
)


def recording(
    environ: Mapping[str, str], directory: Path, hold: str | None = None
) -> dict[str, str]:
    """`environ` in which every Python writes the trace of its imports into `directory`, and makes the delay `hold`."""
    quiet = {name: value for name, value in environ.items() if name != HOLD}
    extra = {HOLD: hold} if hold else {}
    return injected(quiet, FILES, **{DIRECTORY: str(directory), **extra})

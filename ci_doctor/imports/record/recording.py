# SPDX-License-Identifier: Apache-2.0
"""The environment in which every Python records its imports. Pure."""

from collections.abc import Mapping
from pathlib import Path

from ci_doctor.preload.injection import injected

DIRECTORY = "CI_DOCTOR_IMPORT_RACE"
HOLD = "CI_DOCTOR_IMPORT_RACE_HOLD"
FOLDER = Path(__file__).parent / "recorder"
# In this order: each file imports those before it.
FILES = (
    FOLDER / "_ci_doctor_trace.py",
    FOLDER / "_ci_doctor_missing.py",
    FOLDER / "_ci_doctor_hold.py",
    FOLDER / "_ci_doctor_order.py",
    FOLDER / "_ci_doctor_escapes.py",
    FOLDER / "_ci_doctor_greenlets.py",
    FOLDER / "_ci_doctor_other_loads.py",
    FOLDER / "_ci_doctor_imports.py",
)


def recording(
    environ: Mapping[str, str], directory: Path, hold: str | None = None
) -> dict[str, str]:
    """A copy of `environ` in which every Python writes the trace of its imports into `directory`.

    hold: the delay that each of them makes, in the form of `Hold.text()`.
    """
    environment = dict(environ)
    # ci-doctor itself may run under a recorder that makes a delay.
    environment.pop(HOLD, None)
    variables = {DIRECTORY: str(directory)}
    if hold:
        variables[HOLD] = hold
    return injected(environment, FILES, **variables)

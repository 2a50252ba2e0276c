# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: asks an interpreter where a package is, and how its programs are started."""

import os
from pathlib import Path

import msgspec

from ci_doctor.errors import InfraError, UsageError
from ci_doctor.preload.audit.installed_package import InstalledPackage
from ci_doctor.preload.interpreter import Answer, ask, clean_environment

PROBE_TIMEOUT_S = 60.0
_PROBE = Path(__file__).parents[1] / "stub" / "package_probe.py"


def find_package(python: Path, package: str) -> InstalledPackage:
    """What `python` has under the distribution name or import name `package`.

    Raises UsageError if `python` cannot be run, InfraError if it does not answer. A package that is
    not installed has no `tops`.
    """
    # PYTHONPATH stays: the job's modules may come from there.
    environment = clean_environment(os.environ, keep=("PYTHONPATH",))
    environment |= {"CI_DOCTOR_PRELOAD": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    words = ("-B", "-c", _PROBE.read_text("utf-8"), package)
    answer = ask(python, *words, timeout_s=PROBE_TIMEOUT_S, environment=environment)
    return _decoded(python, answer)


def _decoded(python: Path, answer: Answer) -> InstalledPackage:
    if answer.exit_code is None:
        raise InfraError(
            f"{python} did not answer within {PROBE_TIMEOUT_S:.0f} s",
            hint=f"run `{python} -c pass`",
        )
    try:
        return msgspec.json.decode(answer.last_line, type=InstalledPackage)
    except (msgspec.DecodeError, IndexError):
        raise UsageError(
            f"{python} cannot list its packages: {answer.last_error_line}",
            hint="name a Python 3.8 or later, such as .venv/bin/python",
        ) from None

# SPDX-License-Identifier: Apache-2.0
"""Reads the installation: whether the libraries of the extra `lint` are there."""

from importlib.util import find_spec
from typing import Final

from ci_doctor.errors import UsageError
from ci_doctor.model.distribution import install_extra

_MODULES: Final = {
    "yaml": "PyYAML",
}


def require_lint_extra() -> None:
    """Raises UsageError if a library that lint parses with is not installed; imports none."""
    missing = [name for module, name in _MODULES.items() if find_spec(module) is None]
    if missing:
        listed = " and ".join(missing)
        raise UsageError(
            f"`ci-doctor lint` needs {listed}: not installed", hint=install_extra("lint")
        )

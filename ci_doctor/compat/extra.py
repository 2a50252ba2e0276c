# SPDX-License-Identifier: Apache-2.0
"""Reads the installation: whether the library of the extra `compat` is there."""

from importlib.util import find_spec

from ci_doctor.errors import UsageError
from ci_doctor.model.distribution import install_extra


def require_compat_extra() -> None:
    """Raises UsageError if griffe is not installed; does not import it."""
    if find_spec("griffe") is None:
        raise UsageError(
            "`ci-doctor compat` needs griffelib: not installed", hint=install_extra("compat")
        )

# SPDX-License-Identifier: Apache-2.0
"""Reads the environment: where the processes of this user on this machine keep what they share."""

import os
from collections.abc import Mapping
from pathlib import Path

STATE_VARIABLE = "CI_DOCTOR_STATE_DIR"
# What `ci-doctor cache restore` has installed.
RECEIPTS = "receipts"
# An agent that runs as a service has no XDG_RUNTIME_DIR. The directory in it is checked before it is used.
_FALLBACK = "/tmp"  # noqa: S108


def machine_place(environ: Mapping[str, str]) -> Path:
    """`$CI_DOCTOR_STATE_DIR`, else `$XDG_RUNTIME_DIR/ci-doctor`, else `/tmp/ci-doctor-UID`."""
    named = environ.get(STATE_VARIABLE)
    runtime = environ.get("XDG_RUNTIME_DIR")
    if named:
        return Path(named)
    if runtime and Path(runtime).is_dir():
        return Path(runtime, "ci-doctor")
    return Path(_FALLBACK, f"ci-doctor-{os.geteuid()}")

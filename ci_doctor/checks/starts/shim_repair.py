# SPDX-License-Identifier: Apache-2.0
"""Acts on site directories: repairs a preload shim of ours that was cut off, for `--fix`."""

from functools import partial
from pathlib import Path

from ci_doctor.checks.check import Fix
from ci_doctor.errors import UsageError
from ci_doctor.preload.preload_rule import format_rules
from ci_doctor.preload.site import FileCondition, SiteState

# What a failed write leaves. A file that was edited, and a stranger's, stays.
_REPAIRABLE = frozenset({FileCondition.OURS, FileCondition.DAMAGED, FileCondition.ABSENT})


def shim_repair(python: Path, directory: Path, state: SiteState) -> Fix | None:
    """The repair of the shim in `directory`, a site directory of `python`; None if it is not ours.

    A file that is only missing may have been removed on purpose, to switch the shim off.
    """
    conditions = set(state.conditions.values())
    if FileCondition.DAMAGED not in conditions or not conditions <= _REPAIRABLE:
        return None
    words = f"remove what is left of the preload shim in {directory}"
    if state.rules:
        rules = ", ".join(format_rules(state.rules))
        words = f"write the preload shim in {directory} anew, with {rules}"
    return Fix(words=words, apply=partial(_repair, python, directory))


def _repair(python: Path, directory: Path) -> None:
    """Look again, then install the rules that are known, or remove the rest. Raises CiDoctorError."""
    # Late: a repair is seldom, and these load the rest of the room.
    from ci_doctor.preload.install import install_shims, remove_shims
    from ci_doctor.preload.status import status

    shim = status(python)
    if shim.target.site_dir.resolve() != directory.resolve():
        raise UsageError(f"{python} has its shim in {shim.target.site_dir}, not in {directory}")
    if FileCondition.DAMAGED not in shim.files.values():
        return
    if shim.rules:
        install_shims([python], shim.rules, dry_run=False)
    else:
        remove_shims([python], dry_run=False)

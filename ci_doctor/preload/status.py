# SPDX-License-Identifier: Apache-2.0
"""Acts on processes, reads files: which shim an interpreter has, and its condition."""

from pathlib import Path

from msgspec import Struct

from ci_doctor.preload.inspection import inspect_interpreter
from ci_doctor.preload.install import former_shims
from ci_doctor.preload.preload_rule import PreloadRule
from ci_doctor.preload.shim_files import shim_files
from ci_doctor.preload.site import FileCondition, read_site
from ci_doctor.preload.target import Target


class ShimStatus(Struct, frozen=True, kw_only=True):
    """The shim in a target's site directory; `installed`: all files exist as we wrote them.

    `outdated`: an older ci-doctor wrote them. `cut_off` are the remainders of killed processes.
    """

    target: Target
    installed: bool
    rules: tuple[PreloadRule, ...]
    files: dict[str, FileCondition]
    outdated: bool = False
    cut_off: tuple[Path, ...] = ()


def status(python: Path) -> ShimStatus:
    """The shim in `python`. Raises UsageError and InfraError if the interpreter does not answer."""
    return _status(inspect_interpreter(python))


def status_each(python: Path) -> tuple[ShimStatus, ...]:
    """As `status`, then the shims that were left under former minor versions of the environment."""
    target = inspect_interpreter(python)
    return (_status(target), *(_status(former) for former in former_shims(target)))


def _status(target: Target) -> ShimStatus:
    state = read_site(target.site_dir)
    installed = set(state.conditions.values()) == {FileCondition.OURS}
    outdated = False
    if installed:
        current = shim_files(state.rules)
        outdated = any(state.contents[name] != content for name, content in current.items())
    return ShimStatus(
        target=target,
        installed=installed,
        rules=state.rules,
        files=state.conditions,
        outdated=outdated,
        cut_off=state.cut_off,
    )

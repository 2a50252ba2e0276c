# SPDX-License-Identifier: Apache-2.0
"""Reads the build folders of torch's extensions: locks that nobody holds any more."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from ci_doctor.checks.check import CheckResult, DoctorCheck, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.leftovers.rules import STALE_BUILD_LOCK
from ci_doctor.checks.leftovers.user_cache import user_cache
from ci_doctor.model.finding import ShellCommand
from ci_doctor.services.leaks.holding import in_use


def _run(context: CheckContext) -> CheckResult:
    # Resolved, as /proc shows the paths of open files.
    folder = (context.cwd / _extensions(context.environ)).resolve()
    # FOLDER/py311_cu130/NAME/lock, and FOLDER/NAME/lock if TORCH_EXTENSIONS_DIR is set
    # (torch/utils/cpp_extension.py, _get_build_directory).
    locks = {str(path) for pattern in ("*/*/lock", "*/lock") for path in folder.glob(pattern)}
    if not locks:
        return CheckResult(summary=f"no lock in {folder}")
    # Its holder has the file open (torch/utils/file_baton.py).
    used = in_use(locks)
    stale = sorted(locks - used)
    summary = f"{len(stale)} locks of killed builds in {folder}"
    if not stale:
        return CheckResult(summary=summary)
    fault = problem(
        STALE_BUILD_LOCK,
        f"no process in view holds {', '.join(stale)}, and each build there waits for its removal",
        remedy=ShellCommand(shlex.join(["rm", *stale])),
    )
    return CheckResult(summary=summary, problems=(fault,))


def _extensions(environ: Mapping[str, str]) -> Path:
    named = environ.get("TORCH_EXTENSIONS_DIR")
    if named:
        return Path(named)
    return user_cache(environ) / "torch_extensions"


CHECK = DoctorCheck(
    id="leftovers/build-locks",
    title="locks of killed builds of torch's extensions",
    run=_run,
)

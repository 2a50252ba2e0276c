# SPDX-License-Identifier: Apache-2.0
"""Reads the cache of Hugging Face: parts of files whose download was cut off."""

import contextlib
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from ci_doctor.checks.check import CheckResult, DoctorCheck, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.leftovers.rules import UNFINISHED_DOWNLOADS
from ci_doctor.checks.leftovers.user_cache import expanded, user_cache
from ci_doctor.model.finding import Evidence, ShellCommand
from ci_doctor.render.formatting import amount, size
from ci_doctor.system import clock

# A download writes all the time; one that waits for its server longer than this has been given up.
_LEAST_AGE_S = 3600.0
_SHOWN = 10


def _run(context: CheckContext) -> CheckResult:
    cache = hub_cache(context.environ)
    if not cache.is_dir():
        return CheckResult(summary=f"there is no {cache}")
    sizes = dict(_unfinished(cache))
    if not sizes:
        return CheckResult(summary=f"no unfinished download in {cache}")
    total = sum(sizes.values())
    largest = sorted(sizes, key=lambda path: -sizes[path])[:_SHOWN]
    summary = f"{amount(len(sizes), 'unfinished download')} in {cache}, {size(total)}"
    lines = [f"{path}, {size(sizes[path])}" for path in largest]
    words = ["find", str(cache), "-name", "*.incomplete", "-mmin", "+60", "-delete"]
    fault = problem(
        UNFINISHED_DOWNLOADS,
        summary,
        evidence=(Evidence(excerpt="\n".join(lines)),),
        remedy=ShellCommand(shlex.join(words)),
    )
    return CheckResult(summary=summary, problems=(fault,), figures={"bytes": total})


def hub_cache(environ: Mapping[str, str]) -> Path:
    """Where huggingface_hub keeps models (its constants.py): HF_HUB_CACHE, else below HF_HOME."""
    named = environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE")
    if named:
        return expanded(named)
    home = environ.get("HF_HOME")
    if home:
        return expanded(home) / "hub"
    return user_cache(environ) / "huggingface" / "hub"


def _unfinished(cache: Path) -> Iterator[tuple[Path, int]]:
    """The bytes on disk of each old `REPOSITORY/blobs/*.incomplete`."""
    now = clock.epoch()
    for path in cache.glob("*/blobs/*.incomplete"):
        with contextlib.suppress(FileNotFoundError):
            status = path.stat()
            if now - status.st_mtime >= _LEAST_AGE_S:
                yield path, status.st_blocks * 512  # stat(2)


CHECK = DoctorCheck(
    id="leftovers/downloads",
    title="downloads of models that were cut off",
    run=_run,
)

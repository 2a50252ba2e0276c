# SPDX-License-Identifier: Apache-2.0
"""Acts on the build: publishes the reports of one job as annotations, artifacts and meta-data."""

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ci_doctor.buildkite.agent import Agent, AgentResult
from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.errors import CiDoctorError
from ci_doctor.model.report import Report
from ci_doctor.model.verdict import Verdict
from ci_doctor.system.files.atomic import write_atomically

# Far below the 5000 artifacts that a job may have; what is left out is named.
FILES_PER_REPORT = 200
BYTES_PER_FILE = 100 * 1024 * 1024

# The value of the meta-data for a report without a verdict (a usage error, a bug, a signal).
NO_VERDICT = "error"
_WORST_FIRST = (
    Verdict.REGRESSION,
    Verdict.FAILED,
    NO_VERDICT,
    Verdict.VOID,
    Verdict.INCONCLUSIVE,
    Verdict.INFRA,
    Verdict.NONDETERMINISTIC,
    Verdict.FLAKY,
    Verdict.PASS,
)
_FIRST_FILES = ("report.json", "report.md")


def publish(
    reports: Sequence[tuple[Path, Report]],
    job: JobEnvironment,
    agent: Agent,
    markdown: Callable[[Report, str], str],
    style: Callable[[Report], str],
    *,
    annotate: bool = True,
) -> tuple[AgentResult, ...]:
    """Publish each `(directory, report)`; an empty sequence publishes nothing.

    One annotation per report (unless `annotate` is false), whose body is `markdown(report, artifact_folder(directory))`
    and whose style is `style(report)`; the files below each directory as artifacts; and the worst verdict as
    meta-data. What failed is said in the results: nothing is raised for it, and the rest is still done.
    """
    results: list[AgentResult] = []
    seen: dict[str, int] = {}
    for directory, report in reports if annotate else ():
        seen[report.command] = count = seen.get(report.command, 0) + 1
        name = report.command if count == 1 else f"{report.command}-{count}"
        context = job.annotation_context(name)
        body = markdown(report, artifact_folder(directory))
        results.append(agent.annotate(body, style=style(report), context=context))
    for directory, _ in reports:
        results += _upload(directory.absolute(), job, agent)
    if reports:
        results.append(
            agent.set_metadata(job.verdict_key(), worst_verdict(report for _, report in reports))
        )
    return tuple(results)


def artifact_folder(directory: Path) -> str:
    """Name a report directory as the Artifacts tab shows it: `<job id>/<command>` where the plugin chose it."""
    directory = directory.absolute()
    return str(directory.relative_to(directory.parent.parent))


def worst_verdict(reports: Iterable[Report]) -> str:
    """Name the verdict that a person should hear first; `error` stands for a report without one. Pure."""
    verdicts = [report.verdict or NO_VERDICT for report in reports]
    return str(min(verdicts, key=_WORST_FIRST.index))


def _upload(directory: Path, job: JobEnvironment, agent: Agent) -> list[AgentResult]:
    results = []
    copied = _copy_junit(directory, job.junit_artifact_name())
    if copied is not None:
        results.append(copied)
    files, left_out = _files(directory, skip="junit.xml" if copied and copied.ok else None)
    if files:
        # Two levels up: see artifact_folder.
        results.append(agent.upload_artifacts(files, directory.parent.parent))
    if left_out:
        limits = (
            f"more than {FILES_PER_REPORT} files, or larger than {BYTES_PER_FILE // 1024**2} MiB"
        )
        results.append(
            AgentResult(
                ok=False,
                message=f"not uploaded from {directory}: {', '.join(left_out[:10])} ({limits})",
            )
        )
    return results


def _copy_junit(directory: Path, name: str) -> AgentResult | None:
    """Copy junit.xml beside itself under `name`; None where the report has none."""
    source = directory / "junit.xml"
    try:
        if not source.is_file():
            return None
        write_atomically(directory / name, source.read_bytes())
    except (OSError, CiDoctorError) as error:
        return AgentResult(ok=False, message=f"junit.xml keeps its name: {error}")
    return AgentResult(ok=True, message=f"junit.xml copied to {name}")


def _files(directory: Path, *, skip: str | None) -> tuple[list[Path], list[str]]:
    """List the regular files below `directory` that may be uploaded, the report first, and the names of those left out.

    A link is never followed, and a name with a leading dot is a half-written file.
    """
    found: list[Path] = []
    large: list[Path] = []
    # os.walk passes over what it may not read.
    for folder, _, names in os.walk(directory):
        for path in (Path(folder, name) for name in names):
            size = None if path.name.startswith(".") else _size(path)
            if size is not None and path != directory / (skip or ""):
                (found if size <= BYTES_PER_FILE else large).append(path)
    found.sort(key=lambda path: (path.parent != directory, path.name not in _FIRST_FILES, path))
    left_out = [
        str(path.relative_to(directory)) for path in sorted(large) + found[FILES_PER_REPORT:]
    ]
    return found[:FILES_PER_REPORT], left_out


def _size(path: Path) -> int | None:
    """The bytes of a regular file; None for anything else, and for what cannot be looked at."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None

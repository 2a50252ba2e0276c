# SPDX-License-Identifier: Apache-2.0
"""Pure. How a job ended, and the one verdict that stands for it in the build's meta-data."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ci_doctor.model.report import Report
from ci_doctor.model.verdict import Verdict

# Stands for a report without a verdict (a usage error, a bug, a signal), and for a job that was
# cancelled or never came to its command.
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


class JobEnd(Struct, frozen=True, kw_only=True):
    """What a hook at the end of a job knows of it.

    `failures` are the statuses, other than 0, of the command and of the hook that ran last.
    https://buildkite.com/docs/pipelines/configure/environment-variables
    """

    has_run: bool
    failures: tuple[int, ...] = ()
    is_cancelled: bool = False

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "JobEnd":
        """The end of the job of `environ`; the agent leaves out what did not happen."""
        command = _status(environ, "BUILDKITE_COMMAND_EXIT_STATUS")
        hook = _status(environ, "BUILDKITE_LAST_HOOK_EXIT_STATUS")
        return cls(
            has_run=command is not None,
            failures=tuple(status for status in (command, hook) if status),
            is_cancelled=environ.get("BUILDKITE_JOB_CANCELLED") == "true",
        )


def worst_verdict(reports: Sequence[Report], end: JobEnd | None = None) -> str:
    """The most urgent verdict of a job; `end` is None while its command still runs.

    A failure that no report ends with is one that ci-doctor did not see: `failed`. A job without a
    report has proven nothing.
    """
    verdicts = [report.verdict or NO_VERDICT for report in reports]
    if end is not None:
        verdicts += _of_the_end(reports, end)
    return str(min(verdicts, key=_WORST_FIRST.index, default=Verdict.VOID))


def _of_the_end(reports: Sequence[Report], end: JobEnd) -> list[str]:
    if end.is_cancelled:
        return [NO_VERDICT]
    if end.failures:
        explained = {report.exit_code for report in reports}
        return [] if set(end.failures) & explained else [Verdict.FAILED]
    return [] if end.has_run else [NO_VERDICT]


def _status(environ: Mapping[str, str], name: str) -> int | None:
    # -1 stands for a command that a signal ended.
    try:
        return int(environ.get(name, ""))
    except ValueError:
        return None

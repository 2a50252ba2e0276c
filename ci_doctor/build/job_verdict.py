# SPDX-License-Identifier: Apache-2.0
"""Pure. The verdict of one job, from its record, its reports and Buildkite's own state of it."""

from collections.abc import Sequence

from ci_doctor.build import states
from ci_doctor.build.api_job import ApiJob
from ci_doctor.build.job_files import JobFiles
from ci_doctor.build.verdicts import known, verdict_of_reports
from ci_doctor.model.job_record import JobRecord
from ci_doctor.model.outcome import Report
from ci_doctor.model.verdict import NO_VERDICT, Verdict, is_green, worst


def verdict_of_files(files: JobFiles) -> str:
    """The record's verdict; without one, or if the record is greener than a report, the reports'.

    A record may be less bad than a report: it knows of a cause outside the change.
    """
    reports = [file.report for file in files.reports]
    if files.record is None:
        return verdict_of_reports(reports)
    word = verdict_of_record(files.record.record, reports)
    judging = _judging(reports)
    if is_green(word) and judging:
        return worst([word, verdict_of_reports(judging)])
    return word


def verdict_of_record(record: JobRecord, reports: Sequence[Report]) -> str:
    """The verdict that a record has; `pass` for a command that ended with 0 and that nobody judged.

    Such a record is `void`, as ci-doctor has proven nothing. The step has passed all the same: a
    build is not red because its linter needs no ci-doctor. A green one of a job that did not end
    with 0 is not green: `--fail-on-flaky` ends a `flaky` with 7.
    """
    word = known(record.verdict)
    if is_green(word):
        return _as_it_ended(record, word)
    has_passed = record.command_status == 0 and record.exit_status == 0
    has_all = len(reports) >= len(record.reports)
    if word == Verdict.VOID and has_passed and has_all and not _judging(reports):
        return str(Verdict.PASS)
    return word


def _as_it_ended(record: JobRecord, word: str) -> str:
    if record.is_cancelled or record.is_timed_out or record.exit_status is None:
        return NO_VERDICT
    return word if record.exit_status == 0 else str(Verdict.FAILED)


def with_state(word: str, api: ApiJob | None) -> str:
    """The verdict, or a worse one if the files are greener than the job's end on Buildkite."""
    if api is None or not is_green(word) or api.is_soft_failed:
        return word
    if states.was_stopped(api.state):
        return NO_VERDICT
    return str(Verdict.FAILED) if states.has_failed(api.state) else word


def _judging(reports: Sequence[Report]) -> list[Report]:
    """Those that judge something, or that an error ended."""
    return [each for each in reports if each.verdict is not None or each.error is not None]

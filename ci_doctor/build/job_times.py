# SPDX-License-Identifier: Apache-2.0
"""Pure. When a job began and ended, by whoever knows it best."""

from msgspec import Struct

from ci_doctor.build.api_job import ApiJob
from ci_doctor.build.job_files import JobFiles
from ci_doctor.build.times import in_utc, text_of
from ci_doctor.model.quantities import parse_moment


class JobTimes(Struct, frozen=True, kw_only=True):
    """RFC 3339 in UTC; None if unknown."""

    began_at: str | None = None
    ended_at: str | None = None


def times_of(files: JobFiles, api: ApiJob | None) -> JobTimes:
    """The API's times, which hold the checkout too, else the record's, else those of the reports.

    An end before the begin is none: a clock was set in between.
    """
    own = _of_record(files) if files.record is not None else _of_reports(files)
    began, ended = own.began_at, own.ended_at
    if api is not None:
        began = in_utc(api.began_at) or began
        ended = in_utc(api.ended_at) or ended
    first, last = parse_moment(began), parse_moment(ended)
    if first is not None and last is not None and last < first:
        ended = None
    return JobTimes(began_at=began, ended_at=ended)


def _of_record(files: JobFiles) -> JobTimes:
    assert files.record is not None  # noqa: S101 - its caller has looked
    record = files.record.record
    return JobTimes(began_at=in_utc(record.began_at), ended_at=in_utc(record.ended_at))


def _of_reports(files: JobFiles) -> JobTimes:
    """From the begin of the first report to the last end of one."""
    begins, ends = [], []
    for file in files.reports:
        began = parse_moment(file.report.started_at)
        if began is not None:
            begins.append(began)
            ends.append(began + file.report.duration_s)
    if not begins:
        return JobTimes()
    return JobTimes(began_at=text_of(min(begins)), ended_at=text_of(max(ends)))

# SPDX-License-Identifier: Apache-2.0
"""Pure. The root causes that the reports of a job name, and what a job's record keeps of one."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ci_doctor.model.facts.diagnose import RootCause
from ci_doctor.model.job_record import JobCause
from ci_doctor.model.report import Report

_LONGEST_LINE = 500  # characters of a line that is quoted


def root_cause_in(facts: Mapping[str, Any]) -> RootCause | None:
    """The root cause in the facts of `diagnose`, or of `run --diagnose`; None without one."""
    diagnosis = facts.get("diagnosis")
    if isinstance(diagnosis, Mapping):
        facts = diagnosis
    raw = facts.get("root_cause")
    if raw is None:
        return None
    try:
        return msgspec.convert(raw, RootCause)
    # Another version wrote it, or somebody else.
    except msgspec.ValidationError:
        return None


def root_causes(reports: Sequence[Report]) -> Iterator[RootCause]:
    """Those of all `reports`, in their order."""
    for report in reports:
        cause = root_cause_in(report.facts)
        if cause is not None:
            yield cause


def cause_of_job(root: RootCause) -> JobCause:
    """`root` in the form that the reports of a build compare."""
    return JobCause(
        fingerprint=root.fingerprint,
        title=root.title,
        class_=root.class_,
        text=quoted_line(root.place.message),
        place=f"{root.place.file}:{root.place.line}",
        remedy=root.remedy,
        may_be_retried=root.may_be_retried,
    )


def quoted_line(text: str) -> str:
    """`text`, cut after as many characters as a record keeps of a line."""
    if len(text) <= _LONGEST_LINE:
        return text
    return text[: _LONGEST_LINE - 1] + "…"

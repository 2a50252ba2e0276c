# SPDX-License-Identifier: Apache-2.0
"""Pure. From the reports of a step, or of a build, to three lines: verdict, cause, where to look."""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ci_doctor.buildkite.job_end import worst_verdict
from ci_doctor.model.about import About
from ci_doctor.model.facts.build import BuildFacts
from ci_doctor.model.job_record import JobRecord
from ci_doctor.model.report import Report
from ci_doctor.model.verdict import NO_VERDICT, Verdict
from ci_doctor.notify.place import NotifiedPlace
from ci_doctor.render.headline import job_headline
from ci_doctor.render.links import safe_address
from ci_doctor.render.safe_text import one_line, printable
from ci_doctor.render.step_cause import leading_report, short_cause, step_cause
from ci_doctor.render.step_result import is_judged
from ci_doctor.render.step_words import passed_without_evidence

_NAME_CHARACTERS = 120
_CAUSE_CHARACTERS = 300
_URL_CHARACTERS = 1000
_NOWHERE = "the log of the job"


class Notice(Struct, frozen=True, kw_only=True):
    """What is said, as plain text without anything that acts.

    marker: what a comment is found again by. subject: the step or the build. cause: one sentence.
    url: where to look; None if no address is known.
    """

    marker: str
    verdict: str
    subject: str
    cause: str
    url: str | None = None
    about: About = About()

    @property
    def headline(self) -> str:
        """The verdict's symbol and word."""
        shown = job_headline(self.verdict)
        return f"{shown.symbol} {shown.word}"

    @property
    def lines(self) -> tuple[str, str, str]:
        """The three lines of the message."""
        return (f"{self.headline} · {self.subject}", self.cause, self.url or _NOWHERE)


def step_notice(
    reports: Sequence[Report], place: NotifiedPlace, record: JobRecord | None = None
) -> Notice:
    """The notice of a step with at least one of `reports` and `record`."""
    leading = leading_report(reports)
    verdict = _verdict_of_job(record, reports) if record is not None else _verdict_of(reports)
    about = leading.about if leading is not None else About()
    if record is not None:
        about = record.about
    return Notice(
        marker=_marker(place.identity),
        verdict=verdict,
        subject=_line(place.step, _NAME_CHARACTERS),
        cause=_cause(verdict, reports, record),
        url=_address(place.url),
        about=about,
    )


def build_notice(report: Report, place: NotifiedPlace) -> Notice:
    """The notice of a whole build; `report` is that of `build merge`."""
    facts = _build_facts(report.facts)
    cause = report.error.message if report.error is not None else report.summary
    causes = [each for each in facts.causes if not each.cancelled]
    if causes and report.verdict is not Verdict.PASS:
        detail = f": {causes[0].text}" if causes[0].text else ""
        cause = f"{causes[0].title}{detail}"
    number = f"build {report.about.build}" if report.about.build is not None else "the build"
    return Notice(
        marker=_marker(f"{place.pipeline}/build"),
        verdict=str(report.verdict or NO_VERDICT),
        subject=_line(number, _NAME_CHARACTERS),
        cause=_line(cause, _CAUSE_CHARACTERS),
        url=_address(report.about.build_url or place.url),
        about=report.about,
    )


def _verdict_of_job(record: JobRecord, reports: Sequence[Report]) -> str:
    if passed_without_evidence(record, is_judged=is_judged(reports)):
        return Verdict.PASS
    return record.verdict


def _verdict_of(reports: Sequence[Report]) -> str:
    """The worst verdict; `pass` for reports that judge nothing and end with 0."""
    if all(each.verdict is None and each.error is None for each in reports):
        failed = any(each.exit_code for each in reports)
        return str(Verdict.FAILED if failed else Verdict.PASS)
    return worst_verdict(reports)


def _cause(verdict: str, reports: Sequence[Report], record: JobRecord | None) -> str:
    leading = leading_report(reports)
    ordered = [leading] if leading is not None else []
    ordered += [each for each in reports if each is not leading]
    named = None
    if verdict != Verdict.PASS:
        named = step_cause(record.cause if record is not None else None, ordered)
    if named is not None:
        text = short_cause(named)
    elif leading is not None and leading.error is not None:
        text = leading.error.message
    else:
        text = record.summary if record is not None else _summary(leading)
    return _line(text, _CAUSE_CHARACTERS)


def _summary(leading: Report | None) -> str:
    return leading.summary if leading is not None else "ci-doctor made no report"


def _build_facts(facts: dict[str, Any]) -> BuildFacts:
    try:
        return msgspec.convert(facts, BuildFacts)
    except msgspec.ValidationError:
        return BuildFacts()


def _address(url: str | None) -> str | None:
    address = safe_address(url)
    return address if address is not None and len(address) <= _URL_CHARACTERS else None


def _marker(identity: str) -> str:
    # A digest: the label of a step is text of others, and the marker stands in a comment of HTML.
    digest = hashlib.sha256(identity.encode(errors="surrogateescape")).hexdigest()
    return f"<!-- ci-doctor:notify:{digest[:32]} -->"


def _line(text: str, most: int) -> str:
    # Cut before, too: it may be a megabyte.
    line = one_line(printable(text[: most * 4]))
    if len(line) <= most:
        return line or "nothing is known"
    return f"{line[: most - 1]}…"

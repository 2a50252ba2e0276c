# SPDX-License-Identifier: Apache-2.0
"""Every ending has its own first word."""

from ci_doctor.model.outcome import Report
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.headline import Tone, headline, tone
from tests.support.builders import a_finding, a_report


def word(report: Report) -> str | None:
    head = headline(report)
    return head.word if head else None


def test_every_verdict_and_its_absence_has_a_word_of_its_own() -> None:
    words = {verdict: word(a_report(verdict)) for verdict in (*Verdict, None)}
    assert words.pop(None) == "ERROR"
    assert words == {verdict: verdict.upper() for verdict in Verdict}


def test_worse_verdict_keeps_its_word_beside_an_error() -> None:
    assert word(a_report(Verdict.INFRA, findings=(a_finding(),))) == "INFRA"


def test_where_nothing_was_judged_there_is_no_headline() -> None:
    report = a_report(None, error=None, exit_code=0)

    assert headline(report) is None
    assert tone(report) is Tone.INFO

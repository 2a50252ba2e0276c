# SPDX-License-Identifier: Apache-2.0
"""Every ending has its own first word."""

from ci_doctor.model.report import Failure
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.headline import headline
from tests.support.builders import a_finding, a_report


def test_every_verdict_and_its_absence_has_a_word_of_its_own() -> None:
    words = {verdict: headline(a_report(verdict)).word for verdict in (*Verdict, None)}
    assert words.pop(None) == "ERROR"
    assert words == {verdict: verdict.upper() for verdict in Verdict}


def test_worse_verdict_keeps_its_word_beside_an_error() -> None:
    assert headline(a_report(Verdict.INFRA, findings=(a_finding(),))).word == "INFRA"


def test_no_verdict_beside_exit_code_0_is_no_error() -> None:
    report = a_report(None, error=Failure(message="a dry run starts nothing"), exit_code=0)

    assert headline(report).word == "NO VERDICT"

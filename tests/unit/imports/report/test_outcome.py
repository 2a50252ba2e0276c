# SPDX-License-Identifier: Apache-2.0
"""The outcome of an investigation."""

import signal

import pytest

from ci_doctor.imports.report.outcome import interrupted, race_outcome
from ci_doctor.model.outcome import ErrorKind
from ci_doctor.model.verdict import Verdict
from tests.unit.imports.hazards_of import FIRED, an_investigation


def test_it_has_all_parts_of_a_report() -> None:
    outcome = race_outcome(an_investigation(FIRED), {}, {})

    assert outcome.verdict is Verdict.FAILED
    assert [finding.rule for finding in outcome.findings] == ["import-race/self-replacing"]
    assert [table.title for table in outcome.tables] == ["Recorded"]
    assert [attempt.name for attempt in outcome.attempts] == ["recorded"]
    assert len(outcome.cases) == 1


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (signal.SIGINT, ErrorKind.SIGINT),
        (signal.SIGTERM, ErrorKind.SIGTERM),
        (signal.SIGHUP, ErrorKind.SIGHUP),
    ],
)
def test_a_signal_takes_the_verdict_and_leaves_the_evidence(
    number: signal.Signals, kind: ErrorKind
) -> None:
    whole = race_outcome(an_investigation(FIRED), {}, {})

    outcome = interrupted(whole, number)

    assert outcome.verdict is None
    assert outcome.error is not None
    assert outcome.error.kind is kind
    assert number.name in outcome.summary
    assert outcome.findings == whole.findings

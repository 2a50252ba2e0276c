# SPDX-License-Identifier: Apache-2.0
"""The cause that a probe reports is the most telling answer, and never what the deadline has cut."""

from collections.abc import Sequence

import pytest

from ci_doctor.services.probes.answers import AnswersSoFar, ProbeAnswer, Telling

REFUSED = ProbeAnswer(text="connection refused", telling=Telling.ABSENT)
SILENT = ProbeAnswer(text="no answer within 2 s", telling=Telling.SILENT)
CUT = ProbeAnswer(text="no answer within 0.14 s", telling=Telling.SILENT, cut=True)
BUSY = ProbeAnswer(text="HTTP status 503")
DENIED = ProbeAnswer(text="HTTP status 401")


@pytest.mark.parametrize(
    ("answers", "cause"),
    [
        ([DENIED, CUT], "HTTP status 401"),
        ([REFUSED, DENIED, CUT], "HTTP status 401"),
        ([BUSY, DENIED], "HTTP status 401"),
        ([SILENT, SILENT, CUT], "no answer within 2 s"),
        ([REFUSED, SILENT], "no answer within 2 s"),
        ([CUT], "no answer within 0.14 s"),
        ([REFUSED], "connection refused"),
        ([BUSY, REFUSED], "HTTP status 503; at last: connection refused"),
        ([BUSY, SILENT], "HTTP status 503; at last: no answer within 2 s"),
        (
            [REFUSED, CUT],
            "connection refused; at last somebody was there, with no answer within 0.14 s",
        ),
        ([], ""),
    ],
)
def test_the_cause_is_the_most_telling_answer(answers: Sequence[ProbeAnswer], cause: str) -> None:
    so_far = AnswersSoFar()
    for answer in answers:
        so_far.add(answer)
    assert so_far.cause() == cause

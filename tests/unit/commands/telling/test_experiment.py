# SPDX-License-Identifier: Apache-2.0
from ci_doctor.commands.progress import ExperimentSource
from ci_doctor.correctness.attempt import ExperimentProgress
from tests.unit.commands.events import READY, live, taken


def test_notes_and_services_stay() -> None:
    lines = taken(
        ExperimentSource(),
        ExperimentProgress(note="24 min left"),
        ExperimentProgress(start="A1", event=READY),
    )
    assert lines == [
        ("kept", "24 min left"),
        ("kept", "A1  vllm ready after 3.0 s at http://127.0.0.1:81"),
    ]


def test_answers_are_a_status_and_the_last_goes_into_every_log() -> None:
    source = ExperimentSource()
    answers = [ExperimentProgress(start="A1", answers=number, requests=2) for number in (1, 2)]
    assert taken(source, *answers) == [("status", "A1  1/2 answers"), ("log", "A1  2/2 answers")]
    assert live(source) == ["A1  2/2 answers"]


def test_the_answers_are_live_until_something_else_happens() -> None:
    source = ExperimentSource()
    taken(
        source,
        ExperimentProgress(start="A1", answers=1, requests=2),
        ExperimentProgress(start="A1", event=READY),
    )
    assert live(source) == []

# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from msgspec.structs import replace

from ci_doctor.correctness.evidence.recorded_start import RecordedStart
from ci_doctor.correctness.evidence.samples import NO_PASS
from ci_doctor.correctness.evidence.start_record import StartRecord, record_of
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.tally import Tally
from ci_doctor.correctness.verdict.starts import ControlOutcome, ControlResult
from tests.unit.correctness.recording import IDS, PASSES, arm_of, result, sample

DIRECTORY = Path("/report")
SAMPLES = [sample("A1", request, number) for number in (1, 2) for request in IDS]


def finished() -> StartResult:
    tally = Tally(arm=arm_of("A1"), number=1, ids=IDS, passes=PASSES)
    for each in SAMPLES:
        tally.add(each)
    return result(tally, DIRECTORY, facts={"gpu": "H100"})


def recorded(record: StartRecord, count: int = len(SAMPLES)) -> RecordedStart:
    start = RecordedStart(record, IDS, PASSES)
    for each in SAMPLES[:count]:
        start.add(each)
    return start


def test_a_recorded_start_is_the_start_that_was_made() -> None:
    record = record_of(finished(), len(SAMPLES), DIRECTORY)
    assert record.logs == ("logs/A1/vllm-1.log",)
    start = recorded(record)
    assert start.distrust() is None
    assert start.result(DIRECTORY) == finished()


def test_a_missing_sample_makes_the_start_again() -> None:
    record = record_of(finished(), len(SAMPLES), DIRECTORY)
    assert recorded(record, 5).distrust() == "only 5 of its answers are in samples.jsonl"


def test_a_start_that_failed_needs_only_the_samples_it_had() -> None:
    record = replace(record_of(finished(), 2, DIRECTORY), failed=True)
    assert recorded(record, 2).distrust() is None
    assert recorded(replace(record, failed=False), 2).distrust() is not None


def test_a_start_that_failed_outside_the_change_is_made_again() -> None:
    record = replace(record_of(finished(), 2, DIRECTORY), failed=True, outside=True)
    assert recorded(record, 2).distrust() == "it failed for a reason outside the change"


def test_the_control_of_a_recorded_start_comes_from_its_record() -> None:
    control = ControlOutcome(result=ControlResult.SAME, request="r0")
    made = finished()
    made = replace(made, start=replace(made.start, control=control))
    start = RecordedStart(record_of(made, len(SAMPLES), DIRECTORY), IDS, PASSES)
    for each in (*SAMPLES, replace(SAMPLES[0], id="control:r0", pass_=NO_PASS)):
        start.add(each)
    assert start.distrust() is None
    assert start.result(DIRECTORY) == made

# SPDX-License-Identifier: Apache-2.0
"""Finished starts on disk, and how a run goes on with them."""

import json
import multiprocessing
import random
import shutil
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.correctness.evidence.resume import (
    RecordedStart,
    Resumed,
    StartWriter,
    free_number,
    read_starts,
    recordable,
    resume,
    write_starts,
)
from ci_doctor.correctness.evidence.run_identity import PARTIAL, write_run
from ci_doctor.correctness.evidence.samples import NO_PASS
from ci_doctor.correctness.results import StartResult, Tally
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.starts import ArmStart
from ci_doctor.errors import InfraError, UsageError
from ci_doctor.load.canonical import digest
from ci_doctor.model.facts.correctness import ControlOutcome, ControlResult
from ci_doctor.model.facts.launch import (
    FailureKind,
    LeftBehind,
    LeftKind,
    LeftThing,
    NamedProcess,
    ServiceFailure,
    ServiceRun,
    StopResult,
)
from ci_doctor.system.secrets.redaction import Redactor
from tests.unit.correctness.recording import (
    ARMS,
    END,
    IDENTITY,
    IDS,
    ORDER,
    PASSES,
    Recording,
    arm_of,
    output,
    report,
    result,
    sample,
    take_up,
)

DIRECTORY = Path("/report")
DEATH = ServiceFailure(kind=FailureKind.DIED, service="vllm", message="vllm died", duration_s=1.0)
SAMPLES = [sample("A1", request, number) for number in (1, 2) for request in IDS]


def finished() -> StartResult:
    tally = Tally(arm=arm_of("A1"), number=1, ids=IDS, passes=PASSES)
    for each in SAMPLES:
        tally.add(each)
    return result(tally, DIRECTORY, facts={"gpu": "H100"})


def test_the_control_of_a_recorded_start_comes_from_its_record() -> None:
    control = ControlOutcome(result=ControlResult.SAME, request="r0")
    made = finished()
    made = replace(made, start=replace(made.start, control=control))
    start = RecordedStart(recordable(made, Redactor(())), IDS, PASSES)
    for each in (*SAMPLES, replace(SAMPLES[0], id="control:r0", pass_=NO_PASS)):
        start.add(each)
    assert start.distrust() is None
    assert start.result() == made


THING = LeftThing(
    kind=LeftKind.SHARED_MEMORY, name="/dev/shm/x", services=("v",), why="w", strict=True
)
STOPPED = StopResult(
    duration_s=1.0,
    killed=(NamedProcess(pid=7, name="python"),),
    not_released=("8.0 GB",),
    left_behind=LeftBehind(things=(THING,)),
)

KILLS = 104
SIZE = 60_000


def names(resumed: Resumed) -> list[str]:
    return [each.start.name for each in resumed.results]


def lines(directory: Path, name: str = "samples.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / name).read_bytes().splitlines()]


@pytest.fixture
def run(tmp_path: Path) -> Recording:
    write_run(tmp_path, IDENTITY)
    return Recording(tmp_path)


def test_finished_starts_come_back_as_they_were(run: Recording) -> None:
    log = str(run.directory / "logs/B1/vllm-1.log")
    failure = replace(DEATH, signal="SIGSEGV", log=log, tail=("a \ufffd", "b"), tail_line=7)
    made = [
        run.start("A1", facts={"gpu": "H100"}, stopped=STOPPED),
        run.start("B1", sample("B1", "r0", 1), sample("B1", "r1", 1, output=None, digest=None, error="HTTP 500"), failure=failure),
    ]  # fmt: skip
    before = (run.directory / "samples.jsonl").read_bytes()
    resumed = take_up(run.directory)
    assert resumed.results == tuple(made)
    assert resumed.again == ()
    assert (run.directory / "samples.jsonl").read_bytes() == before
    assert resumed.results[0].start.answers["r2"] is not None


def test_what_the_proof_missed_is_still_missing(run: Recording) -> None:
    start = run.start("A1", finished=False).start
    start = replace(start, arm=Arm.CANDIDATE, proof_missing=("no counter",))
    Recording(run.directory).start("B1", start=start)
    assert take_up(run.directory).results[0].start.proof_missing == ("no counter",)


def test_every_output_can_be_looked_up(run: Recording) -> None:
    run.start("A1", finished=False)
    run.start("B1")
    outputs = take_up(run.directory).outputs
    assert outputs[digest(output("B1", "r1", 2))] == output("B1", "r1", 2)
    assert len(outputs) == len(IDS) * PASSES
    assert digest(output("A1", "r1", 2)) not in outputs


def test_an_unfinished_start_leaves_neither_samples_nor_logs_nor_a_page(run: Recording) -> None:
    for name in ("A1", "B1"):
        log = run.directory / "logs" / name / "vllm-1.log"
        log.parent.mkdir(parents=True)
        log.write_text(name)
    (run.directory / "report.html").write_text('<html><meta name="generator" content="ci-doctor">')
    run.start("A1")
    run.start("B1", finished=False)
    assert names(take_up(run.directory)) == ["A1"]
    assert {line["arm"] for line in lines(run.directory)} == {"baseline"}
    left = sorted(path for path in run.directory.rglob("*") if path.is_file())
    assert [str(path.relative_to(run.directory)) for path in left] == [
        *("logs/A1/vllm-1.log", "run.json", "samples.jsonl", "starts.jsonl")
    ]


@pytest.mark.parametrize("file", ["samples.jsonl", "starts.jsonl"])
def test_a_torn_last_line_goes_with_its_start(run: Recording, file: str) -> None:
    run.start("A1")
    run.start("B1")
    path = run.directory / file
    path.write_bytes(path.read_bytes()[:-5])
    assert names(take_up(run.directory)) == ["A1"]
    assert len(lines(run.directory)) == len(IDS) * PASSES
    assert len(lines(run.directory, "starts.jsonl")) == 1


def changed(run: Recording, number: int, **changes: Any) -> None:
    """Change the fields of one line of the samples."""
    held = lines(run.directory)
    held[number] |= changes
    (run.directory / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in held))


def test_a_start_whose_answer_was_changed_is_made_again(run: Recording) -> None:
    run.start("A1")
    run.start("B1")
    changed(run, 0, output=output("A1", "r0", 2))
    resumed = take_up(run.directory)
    assert names(resumed) == ["B1"]
    assert resumed.again == ("A1 is made again: the answer to r0 in pass 1 is not what it was",)
    assert free_number(Arm.BASELINE, [each.start for each in resumed.results]) == 1


def test_a_redacted_answer_is_trusted_by_its_mark(run: Recording) -> None:
    secret = "sk-123456789"
    said = {"choices": [{"index": 0, "text": f"the key is {secret}"}]}
    given = [
        sample("A1", request, number, output=said, digest=digest(said))
        for request in IDS
        for number in (1, 2)
    ]
    made = Recording(run.directory, secrets=(secret,)).start("A1", *given)
    assert secret not in (run.directory / "samples.jsonl").read_text()
    resumed = take_up(run.directory)
    assert resumed.results == (made,)
    assert resumed.outputs[digest(said)]["choices"][0]["text"] == "the key is [redacted]"


def test_a_line_that_is_gone_makes_its_start_again(run: Recording) -> None:
    run.start("A1")
    held = lines(run.directory)[1:]
    (run.directory / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in held))
    assert take_up(run.directory).again == (
        "A1 is made again: only 5 of its answers are in samples.jsonl",
    )


def test_a_start_that_failed_must_have_all_that_it_had_answered(run: Recording) -> None:
    run.start("A1", sample("A1", "r0", 1), sample("A1", "r1", 1), failure=DEATH)
    (run.directory / "samples.jsonl").write_text(json.dumps(lines(run.directory)[0]) + "\n")
    assert take_up(run.directory).again == (
        "A1 is made again: only 1 of its answers are in samples.jsonl",
    )


def test_an_answer_that_stands_twice_makes_its_start_again(run: Recording) -> None:
    run.start("A1")
    changed(run, 1, id="r0")
    assert "stands twice" in take_up(run.directory).again[0]


def test_a_start_that_failed_for_a_reason_outside_gets_another_chance(run: Recording) -> None:
    failure = replace(DEATH, kind=FailureKind.OUTSIDE)
    run.start("A1", sample("A1", "r0", 1), failure=failure, outside=True)
    assert names(take_up(run.directory)) == []


def test_going_on_does_not_make_a_start_s_own_excuse_go_away(run: Recording) -> None:
    failure = replace(DEATH, kind=FailureKind.OUTSIDE, log="logs/B1/vllm-1.log")
    run.start("B1", sample("B1", "r0", 1), failure=failure, outside=True)
    (result,) = take_up(run.directory).results
    assert (result.start.outside, result.start.claimed) == (True, True)


def test_a_run_without_any_start_can_be_taken_up(tmp_path: Path) -> None:
    write_run(tmp_path, IDENTITY)
    assert names(take_up(tmp_path)) == []


def test_another_run_is_not_taken_up_and_is_told_apart(run: Recording) -> None:
    run.start("A1", finished=False)
    before = (run.directory / "samples.jsonl").read_bytes()
    other = replace(
        IDENTITY, requests="2" * 64, hashes={"the command of the candidate": "ffff"}, settings={"passes": 3, "reset": "/r"}
    )  # fmt: skip
    with pytest.raises(UsageError) as caught:
        resume(run.directory, other, ids=IDS, passes=PASSES, arms=ARMS)
    assert caught.value.message.endswith(
        "is another one than this: the requests changed; the command of the candidate changed; passes 2 -> 3; "
        "reset unset -> /r"
    )
    assert (run.directory / "samples.jsonl").read_bytes() == before


def test_another_version_of_ci_doctor_does_not_go_on(run: Recording) -> None:
    path = run.directory / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": "0.0.1"}))
    with pytest.raises(UsageError, match=r"ci-doctor 0\.0\.1 -> "):
        take_up(run.directory)


@pytest.mark.parametrize("content", [None, "", "[]", '{"schema": "ci-doctor/run/3"}'])
def test_a_directory_without_a_run_is_a_mistake(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(UsageError, match=r"run\.json"):
        take_up(tmp_path)


def test_samples_that_cannot_be_read_are_a_mistake(run: Recording) -> None:
    (run.directory / "samples.jsonl").mkdir()
    with pytest.raises(UsageError, match="cannot resume"):
        take_up(run.directory)


def test_the_lowest_free_number_is_next() -> None:
    starts = [
        ArmStart(arm=Arm.BASELINE, number=1),
        ArmStart(arm=Arm.BASELINE, number=3),
        ArmStart(arm=Arm.CANDIDATE, number=2),
        ArmStart(arm=Arm.BASELINE, number=2, archived=True),
    ]
    assert free_number(Arm.BASELINE, starts) == 2
    assert free_number(Arm.CANDIDATE, starts) == 1
    assert free_number(Arm.CANDIDATE, []) == 1


def killed_after(
    context: ForkServerContext, directory: Path, steps: int, later_s: float
) -> list[str]:
    """The steps that a run in a process of its own told of until it was killed, `later_s` seconds after `steps` of them."""
    ours, theirs = context.Pipe(duplex=False)
    with ours:
        process = context.Process(target=report, args=(directory, SIZE, theirs))
        process.start()
        theirs.close()
        told = heard(ours, steps)
        process.join(timeout=later_s)
        process.kill()
        told += heard(ours)
        process.join()
        process.close()
    return told


def heard(connection: Connection, most: int | None = None) -> list[str]:
    told: list[str] = []
    try:
        while most is None or len(told) < most:
            told.append(connection.recv())
    except (EOFError, OSError):  # the kill may tear a message too
        pass
    return told


def check(directory: Path, acknowledged: set[str], copy: Path) -> None:
    """Whoever takes it up now has exactly the finished starts, each whole and with its own evidence alone."""
    shutil.copytree(directory, copy)
    held = (copy / "starts.jsonl").read_bytes() if (copy / "starts.jsonl").exists() else b""
    finished = [json.loads(line) for line in held.split(b"\n")[:-1]]
    starts = [each["result"]["start"] for each in finished]
    expected = [f"{'A' if each['arm'] == 'baseline' else 'B'}{each['number']}" for each in starts]
    resumed = take_up(copy)
    assert names(resumed) == expected
    assert acknowledged <= set(expected)
    assert resumed.again == ()
    assert len(resumed.outputs) == len(expected) * len(IDS) * PASSES
    for each in resumed.results:
        name = each.start.name
        wanted = {(i, n): digest(output(name, i, n, SIZE)) for i in IDS for n in (1, 2)}
        assert {
            (i, n): found for i, passes in each.digests.items() for n, found in passes.items()
        } == wanted
        assert resumed.outputs[wanted["r2", 2]] == output(name, "r2", 2, SIZE)
        assert [path.name for path in (copy / "logs" / name).iterdir()] == ["vllm-1.log"]
        assert set((copy / "logs" / name / "vllm-1.log").read_text().split()) == {name}
    logs = {path.parent.name for path in copy.glob("logs/*/*.log")}
    assert logs == set(expected)
    shutil.rmtree(copy)


@pytest.mark.integration
def test_whenever_a_run_is_killed_it_goes_on_with_exactly_its_finished_starts(
    tmp_path: Path,
) -> None:
    """Each process takes up what the killed one before has left, until all is done; then the next run begins."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.unit.correctness.recording"])
    source = random.Random(20)
    acknowledged: set[str] = set()
    kills = runs = 0
    directory = tmp_path / "0"
    while kills < KILLS:
        # After one step it is taking up what is there, after more it is making starts.
        steps = source.choice((1, source.randrange(2, 20)))
        told = killed_after(context, directory, steps, source.uniform(0.0, 0.02))
        kills += 1
        acknowledged |= set(told) & set(ORDER)
        if (directory / "run.json").exists():
            check(directory, acknowledged, tmp_path / "copy")
        if END in told:
            # Not `acknowledged`: a kill may come between a start's line and the word of it.
            assert set(names(take_up(directory))) == set(ORDER)
            shutil.rmtree(directory)
            runs += 1
            directory, acknowledged = tmp_path / str(runs), set()
    assert runs


@pytest.mark.integration
def test_a_kill_while_samples_are_rewritten_costs_no_finished_start(run: Recording) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.unit.correctness.recording"])
    size = 4_000_000
    answers = [sample("A1", request, number, size=size) for request in IDS for number in (1, 2)]
    made = run.start("A1", *answers)
    partial = run.directory / PARTIAL
    hits = 0
    for _ in range(20):
        run.start("B1", sample("B1", "r0", 1), finished=False)
        process = context.Process(target=take_up, args=(run.directory,))
        process.start()
        while not partial.exists() and process.is_alive():
            pass
        process.kill()
        process.join()
        process.close()
        hits += partial.exists()
    assert hits
    resumed = take_up(run.directory)
    assert resumed.results == (made,)
    assert resumed.outputs[digest(output("A1", "r2", 2, size))] == output("A1", "r2", 2, size)
    assert not partial.exists()


SUDDEN = replace(DEATH, service="web", exit_code=2, duration_s=0.2)
TYPO = replace(SUDDEN, misuse="error: unrecognized arguments: --typo", misused="--typo")
REMOVED = replace(SUDDEN, misuse="error: unrecognized arguments: --eager", misused="--eager")


def fail(run: Recording, name: str, failure: ServiceFailure) -> None:
    """Write a start that failed before it was ready."""
    run.start(name, sample(name, "r0", 1, output=None, digest=None, error="e"), failure=failure)


@pytest.mark.parametrize(
    ("ends", "kept"),
    [
        ({"A1": TYPO}, []),
        ({"A1": SUDDEN, "A2": SUDDEN}, []),
        ({"A1": None, "B1": TYPO}, ["A1"]),
        # The change has broken it, or it has worked before: evidence that must not be lost.
        ({"A1": None, "B1": REMOVED}, ["A1", "B1"]),
        ({"A1": None, "B1": SUDDEN}, ["A1", "B1"]),
        ({"A1": None, "B1": None, "B2": TYPO}, ["A1", "B1", "B2"]),
        ({"A1": SUDDEN, "A2": None, "B1": None}, ["A1", "A2", "B1"]),
    ],
)
def test_only_the_starts_of_a_command_that_could_not_run_are_made_again(
    run: Recording, ends: dict[str, ServiceFailure | None], kept: list[str]
) -> None:
    for name, failure in ends.items():
        if failure:
            fail(run, name, failure)
        else:
            run.start(name)
    resumed = take_up(run.directory)
    assert names(resumed) == kept
    reason = "its command could not run as it was written"
    again = [f"{name} is made again: {reason}" for name in ends if name not in kept]
    assert list(resumed.again) == again


SECRET = "sk-123456789"


def stopped(name: str) -> StopResult:
    return StopResult(duration_s=1.0, killed=(NamedProcess(pid=7, name=name),))


def write(directory: Path, name: str, **changes: Any) -> None:
    tally = Tally(arm=arm_of(name), number=int(name[1:]), ids=IDS, passes=PASSES)
    with StartWriter(directory, Redactor([SECRET]), append=True) as writer:
        writer.write(result(tally, directory, **{"samples": 6, **changes}))


def test_each_finished_start_is_a_line_and_the_unfinished_is_none(tmp_path: Path) -> None:
    write(tmp_path, "A1")
    write(tmp_path, "B1", cut_short=True)
    write(tmp_path, "A0", warm_up=True)
    write(tmp_path, "B2")
    assert [record.start.name for record in read_starts(tmp_path)] == ["A1", "B2"]


def test_a_new_run_begins_with_an_empty_record(tmp_path: Path) -> None:
    write(tmp_path, "A1")
    with StartWriter(tmp_path, Redactor(())):
        pass
    assert read_starts(tmp_path) == []


def test_logs_are_told_relative_to_the_report_directory(tmp_path: Path) -> None:
    own, other = str(tmp_path / "logs/A1/v-1.log"), "/elsewhere/v.log"
    failure = replace(DEATH, log=own)
    services = (ServiceRun(name="v", log=own), ServiceRun(name="w", log=other))
    write(tmp_path, "A1", failure=failure, services=services)
    (record,) = read_starts(tmp_path)
    assert record.logs == (own, other)
    assert record.failure == failure
    line = json.loads((tmp_path / "starts.jsonl").read_text())["result"]
    assert [each["log"] for each in line["services"]] == ["logs/A1/v-1.log", "/elsewhere/v.log"]
    assert line["failure"]["log"] == "logs/A1/v-1.log"


def test_no_secret_of_a_log_or_a_command_line_is_kept(tmp_path: Path) -> None:
    failure = replace(DEATH, tail=(f"key {SECRET}",))
    facts = {"argv": f"--api-key {SECRET}"}
    write(tmp_path, "A1", failure=failure, facts=facts, stopped=stopped(SECRET))
    assert SECRET not in (tmp_path / "starts.jsonl").read_text()
    assert read_starts(tmp_path)[0].samples == 6


def test_lines_that_are_no_records_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "A1")
    path = tmp_path / "starts.jsonl"
    line = path.read_bytes()
    path.write_bytes(b"{}\n[\n\xff\n" + line + line[:-1])
    assert [record.start.name for record in read_starts(tmp_path)] == ["A1"]
    write_starts(tmp_path, read_starts(tmp_path))
    assert path.read_bytes() == line


def test_a_record_that_cannot_be_read_or_written_is_a_mistake(tmp_path: Path) -> None:
    assert read_starts(tmp_path) == []
    (tmp_path / "starts.jsonl").mkdir()
    with pytest.raises(UsageError, match="cannot read"):
        read_starts(tmp_path)
    with pytest.raises(UsageError, match="cannot write"):
        write(tmp_path, "A1")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_nobodys_fault(tmp_path: Path) -> None:
    (tmp_path / "starts.jsonl").symlink_to("/dev/full")
    with pytest.raises(InfraError, match="No space left"):
        write(tmp_path, "A1")


def test_a_record_is_one_line_of_json(tmp_path: Path) -> None:
    write(tmp_path, "A1", stopped=stopped("a\nb \udc80"))
    (line,) = (tmp_path / "starts.jsonl").read_text().splitlines()
    assert json.loads(line)["result"]["stopped"]["killed"][0]["name"] == "a\nb \udc80"

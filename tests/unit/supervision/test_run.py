# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from msgspec.structs import replace

from ci_doctor.diagnosis import outside
from ci_doctor.diagnosis.diagnosis import Diagnosis, outcome_of
from ci_doctor.errors import Terminated
from ci_doctor.model.cause import Cause, FailureClass, LogLine, RetryPolicy
from ci_doctor.model.facts.diagnose import (
    DiagnoseFacts,
    LogLines,
    RunFacts,
    SetupEnvFacts,
    SupervisedRunFacts,
)
from ci_doctor.model.outcome import Outcome, Verdict
from ci_doctor.supervision import (
    MOST_LINES,
    Ended,
    SupervisionRequest,
    conclude,
    find_cause,
    talk,
)
from ci_doctor.system.relay import CommandEnd
from tests.support.builders import a_finding
from tests.support.diagnoses import a_cause


def a_place(line: int, text: str) -> LogLine:
    return LogLine(file="command.log", line=line, text=text)


def facts_of(cause: Cause | None, best: LogLine | None = None) -> DiagnoseFacts:
    excerpt = None
    if best is not None:
        excerpt = LogLines(
            file=best.file,
            first_line=best.line or 1,
            lines=(best.text,),
            marked=0,
            messages=(best.text,),
        )
    diagnosis = Diagnosis(cause=cause, best=best, excerpt=excerpt, others=(), logs=("command.log",))
    facts = outcome_of(diagnosis).facts
    assert isinstance(facts, DiagnoseFacts)
    return facts


def test_the_cause_its_consequences_and_the_next_step_stand_in_order() -> None:
    cause = a_cause(
        place=a_place(7, "OSError: the line"),
        class_=FailureClass.CODE_BUG,
        consequences=(a_place(9, "engine core died"), a_place(12, "connection refused")),
        next_command="ci-doctor import-race probe a:b",
    )

    lines = talk("pytest: exit code 1", facts_of(cause), "r/command.log", ()).splitlines()

    assert lines[0] == "✗ pytest: exit code 1"
    assert lines[1].endswith("80 % sure: A Python program raised an exception that nobody caught.")
    assert lines[2:6] == [
        "  r/command.log:7",
        "  │ OSError: the line",
        "  so, line 9: engine core died",
        "  so, line 12: connection refused",
    ]
    assert lines[6].startswith("  try: Begin at the innermost frame in your own code.")
    assert lines[7:] == ["  run: ci-doctor import-race probe a:b", "  log: r/command.log"]


def test_without_a_cause_it_names_none() -> None:
    text = talk("make: exit code 2", facts_of(None, a_place(3, "make: stop")), None, ())

    assert " sure: " not in text
    assert "begin at line 3 of the output" in text
    assert "│ make: stop" in text


def test_without_a_diagnosis_it_says_how_the_command_ended_and_why_there_is_none() -> None:
    text = talk("make: exit code 2", None, None, ["no diagnosis: a reason"])

    assert text == "✗ make: exit code 2\n  note: no diagnosis: a reason\n"


def test_it_is_twelve_short_harmless_lines_at_most() -> None:
    places = tuple(a_place(line, f"\x1b[31m{'x' * 10_000}\r\ny") for line in range(9))
    cause = a_cause(consequences=places, next_command="next", explanation="a\nb")

    text = talk("x: exit code 1", facts_of(cause), "log", ["problem"] * 20)

    lines = text.splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= 301
    assert "\x1b" not in text


PREPARED = Outcome(
    verdict=Verdict.PASS,
    summary="prepared",
    facts=SetupEnvFacts(exports={"A": "1"}, changed=("A",), determinism=(), targets=()),
)
REQUEST = SupervisionRequest(
    command=("pytest", "-q"), environ={}, prepared=PREPARED, directory=None, log_limit=1
)


def diagnosed(cause: Cause) -> Outcome:
    return outcome_of(
        Diagnosis(cause=cause, best=None, excerpt=None, others=(), logs=("command.log",))
    )


NAMED = diagnosed(a_cause())
OUTSIDE = diagnosed(replace(a_cause(), retry=RetryPolicy.YES, is_outside=True, is_final=True))


def ended(returncode: int, *, retry_helps: bool = False) -> Ended:
    diagnosis = OUTSIDE if retry_helps else NAMED
    return Ended(end=CommandEnd(returncode=returncode), is_explained=True, diagnosis=diagnosis)


@pytest.mark.parametrize(
    ("returncode", "status", "signal"), [(0, 0, None), (3, 3, None), (75, 75, None), (-9, 137, 9)]
)
@pytest.mark.parametrize("retry_helps", [True, False])
def test_the_status_is_the_commands_own(
    returncode: int, status: int, signal: int | None, retry_helps: bool
) -> None:
    supervised = conclude(REQUEST, ended(returncode, retry_helps=retry_helps))

    assert (supervised.outcome.command_status, supervised.signal) == (status, signal)


@pytest.mark.parametrize("returncode", [1, 255, -9])
def test_by_class_a_failure_that_another_run_helps_is_75(returncode: int) -> None:
    request = replace(REQUEST, retry_status=75)

    supervised = conclude(request, ended(returncode, retry_helps=True))

    assert (supervised.outcome.command_status, supervised.signal) == (75, None)


def test_by_class_nothing_else_is_75() -> None:
    request = replace(REQUEST, retry_status=75)

    assert conclude(request, ended(1)).outcome.command_status == 1
    assert conclude(request, ended(0, retry_helps=True)).outcome.command_status == 0
    killed = conclude(request, ended(-9))
    assert (killed.outcome.command_status, killed.signal) == (137, 9)


def test_a_diagnosis_judges_nothing() -> None:
    assert conclude(REQUEST, ended(1)).outcome.verdict is None


def test_the_facts_of_the_preparation_stay() -> None:
    prepared = replace(
        PREPARED,
        facts=RunFacts(exports={"A": "1"}, changed=(), determinism=(), targets=(), preload=("x",)),
    )

    facts = conclude(replace(REQUEST, prepared=prepared), ended(-15)).outcome.facts

    assert isinstance(facts, SupervisedRunFacts)
    assert (facts.exports, facts.preload) == ({"A": "1"}, ("x",))
    assert (facts.exit_code, facts.signal, facts.diagnosis) == (None, "SIGTERM", NAMED.facts)


def test_the_cause_is_the_first_finding() -> None:
    note = a_finding()

    request = replace(REQUEST, prepared=replace(PREPARED, findings=(note,)))

    assert conclude(request, ended(1)).outcome.findings == (*NAMED.findings, note)


def test_a_success_has_no_text_unless_output_was_lost() -> None:
    good = CommandEnd(returncode=0)
    lossy = CommandEnd(returncode=0, problems=("stdout cannot be written: gone",))

    assert conclude(REQUEST, Ended(end=good)).text == ""
    assert "stdout cannot be written" in conclude(REQUEST, Ended(end=lossy)).text


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "command.log"
    path.write_text("before\nOSError: [Errno 28] No space left on device\n")
    return path


@pytest.mark.parametrize("is_full", [True, False])
def test_a_full_disk_that_the_log_names_may_be_retried_only_if_a_disk_is_full(
    log: Path, monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    monkeypatch.setattr(outside, "is_disk_full", lambda *_: is_full)
    found = find_cause(log, (), 1)

    assert isinstance(found, Outcome)
    assert isinstance(found.facts, DiagnoseFacts)
    assert found.facts.root_cause is not None
    cause = found.facts.root_cause
    assert (cause.place.line, cause.may_be_retried) == (2, is_full)
    assert found.findings[0].evidence[0].line == 2


def test_a_command_that_was_quiet_after_a_line_did_not_end_by_it(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outside, "is_disk_full", lambda *_: True)
    found = find_cause(log, (), 1, 20.0)

    assert isinstance(found, Outcome)
    assert isinstance(found.facts, DiagnoseFacts)
    assert found.facts.root_cause is not None
    assert not found.facts.root_cause.may_be_retried


def test_a_rule_file_with_a_mistake_costs_the_diagnosis_alone(log: Path) -> None:
    rules = log.with_name("rules.toml")
    rules.write_text("no table\n")

    found = find_cause(log, [rules], 1)

    assert isinstance(found, str)
    assert found.startswith("no diagnosis: ")


def test_a_command_without_output_is_said_to_have_none(log: Path) -> None:
    log.write_text("")

    assert find_cause(log, (), 4) == "no diagnosis: the command wrote nothing"


def test_a_log_that_is_gone_is_named(tmp_path: Path) -> None:
    found = find_cause(tmp_path / "command.log", (), 1)

    assert isinstance(found, str)
    assert "cannot be read" in found


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (KeyboardInterrupt(), "the diagnosis was interrupted"),
        (Terminated("SIGTERM"), "the diagnosis was interrupted"),
        (RecursionError("too deep"), "no diagnosis: RecursionError: too deep"),
    ],
)
def test_whatever_ends_a_diagnosis_ends_nothing_else(
    log: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, problem: str
) -> None:
    def raises(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("ci_doctor.diagnosis.diagnosis.diagnose", raises)

    assert find_cause(log, (), 1) == problem

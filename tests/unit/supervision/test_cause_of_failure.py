# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.errors import Terminated
from ci_doctor.supervision import cause_of_failure
from ci_doctor.supervision.cause_of_failure import find_cause


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "command.log"
    path.write_text("before\nOSError: [Errno 28] No space left on device\n")
    return path


def test_a_line_about_something_outside_is_the_cause_and_may_be_retried(log: Path) -> None:
    found = find_cause(log, (), 1)

    assert found.facts is not None
    assert found.facts.root_cause is not None
    assert found.facts.root_cause.place.line == 2
    assert found.findings[0].evidence[0].line == 2
    assert (found.retry_helps, found.problem) == (True, None)


def test_a_rule_file_with_a_mistake_costs_the_diagnosis_alone(log: Path) -> None:
    rules = log.with_name("rules.toml")
    rules.write_text("no table\n")

    found = find_cause(log, [rules], 1)

    assert found.facts is None
    assert found.problem is not None
    assert found.problem.startswith("no diagnosis: ")


def test_a_command_without_output_is_said_to_have_none(log: Path) -> None:
    log.write_text("")

    assert find_cause(log, (), 4).problem == "no diagnosis: the command wrote nothing"


def test_a_log_that_is_gone_is_named(tmp_path: Path) -> None:
    found = find_cause(tmp_path / "command.log", (), 1)

    assert (found.facts, found.findings) == (None, ())
    assert found.problem is not None
    assert "cannot be read" in found.problem


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

    monkeypatch.setattr(cause_of_failure, "diagnose", raises)

    assert find_cause(log, (), 1).problem == problem

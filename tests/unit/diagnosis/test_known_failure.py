# SPDX-License-Identifier: Apache-2.0
"""What the exit status of a command adds to what its logs say."""

from pathlib import Path

import pytest

from ci_doctor.diagnosis.diagnosis import diagnose, load_rules
from ci_doctor.diagnosis.outcome import outcome_of
from ci_doctor.model.facts.diagnose import DiagnoseFacts

BOUND = "ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 8000): address already in use"
STARTED = "INFO:     Started server process [4711]\nINFO:     Waiting for application startup.\n"
STOPPED = "INFO:     Waiting for application shutdown.\nINFO:     Application shutdown complete.\n"


def facts_of(folder: Path, text: str, status: int | None) -> DiagnoseFacts:
    log = folder / "command.log"
    log.write_text(text)
    facts = outcome_of(diagnose([str(log)], load_rules(), status=status)).facts
    assert isinstance(facts, DiagnoseFacts)
    return facts


def named(folder: Path, text: str, status: int | None) -> str | None:
    cause = facts_of(folder, text, status).root_cause
    return None if cause is None else cause.place.text


@pytest.mark.parametrize(
    "end",
    [
        STOPPED,
        f"{STOPPED}INFO:     Finished server process [4711]\n",
        f"{STOPPED}INFO:     Stopping parent process [4710]\n",
    ],
)
def test_a_server_that_stops_in_order_after_a_cause_has_not_ended_well(
    tmp_path: Path, end: str
) -> None:
    assert named(tmp_path, f"{STARTED}{BOUND}\n{end}", None) == BOUND


def test_a_server_that_stops_in_order_long_after_an_error_has_ended_well(tmp_path: Path) -> None:
    requests = 'INFO:     127.0.0.1:40000 - "POST /v1/completions HTTP/1.1" 200 OK\n' * 20

    assert named(tmp_path, f"{STARTED}{BOUND}\n{requests}{STOPPED}", None) is None


@pytest.mark.parametrize(
    "end", ["All checks passed!", "Job succeeded", "Finished: SUCCESS", "done"]
)
def test_words_of_success_do_not_outweigh_a_failed_status(tmp_path: Path, end: str) -> None:
    text = f"collecting\nerror: widget 3 does not fit\n{end}\n"

    assert named(tmp_path, text, 1) == "error: widget 3 does not fit"


def test_a_status_of_success_names_no_cause(tmp_path: Path) -> None:
    assert named(tmp_path, f"{STARTED}{BOUND}\n", 0) is None


def test_last_words_that_no_rule_knows_are_one_possibility_and_no_class(tmp_path: Path) -> None:
    cause = facts_of(tmp_path, "loading\nmytool: widget mismatch at 3\n", 1).root_cause

    assert cause is not None
    assert (cause.place.line, cause.class_) == (2, None)
    assert cause.likelihood == "one possibility among others"


@pytest.mark.parametrize("status", [124, 137, 139, 143, -9])
def test_what_ended_by_a_signal_or_a_limit_had_no_last_words(tmp_path: Path, status: int) -> None:
    assert named(tmp_path, "loading weights\n", status) is None


@pytest.mark.parametrize(
    ("status", "words"),
    [(137, "SIGKILL"), (-11, "SIGSEGV"), (124, "timeout(1)"), (3, "exit code 3")],
)
def test_the_status_is_said_where_no_line_explains_it(
    tmp_path: Path, status: int, words: str
) -> None:
    log = tmp_path / "a.log"
    log.write_text("ok\n")

    assert words in outcome_of(diagnose([str(log)], load_rules(), status=status)).summary


def test_what_the_status_alone_has_named_asks_for_no_retry(tmp_path: Path) -> None:
    text = "curl: (6) Could not resolve host: pypi.org\nAll checks passed!\n"
    alone = facts_of(tmp_path, text, None).root_cause
    cause = facts_of(tmp_path, text, 1).root_cause

    assert alone is None
    assert cause is not None
    assert (cause.class_, cause.may_be_retried) == ("network", False)


def test_of_several_logs_the_quiet_ones_have_no_last_words(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("a client writes this\n")
    (tmp_path / "b.log").write_text("error: widget 3 does not fit\n")
    names = [str(tmp_path / "a.log"), str(tmp_path / "b.log")]

    cause = diagnose(names, load_rules(), status=1).cause

    assert cause is not None
    assert cause.place.file == names[1]

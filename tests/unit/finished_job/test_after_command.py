# SPDX-License-Identifier: Apache-2.0
"""The logs of a failed command together: which ones count, and when a cause is proven enough for a retry."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from ci_doctor.buildkite.rest import CommandOutput
from ci_doctor.diagnosis import outside
from ci_doctor.diagnosis.diagnosis import load_rules
from ci_doctor.finished_job import OUTPUT_NAME, LogsOfJob, diagnose_job, logs_of_job
from ci_doctor.model.outcome import Verdict
from tests.support.builders import a_report

BEGAN = "2026-11-22T10:00:00.000Z"
BEGAN_S = 1795341600.0
ENDED_S = BEGAN_S + 63
FULL_DISK = "copying the model\ncp: error writing '/data/x': No space left on device\n"
ASSERTION = (
    ">       assert answer == 42\nE       assert 41 == 42\ntests/test_a.py:3: AssertionError\n"
    "=========================== short test summary info ============================\n"
    "FAILED tests/test_a.py::test_a - assert 41 == 42\n1 failed in 0.03s\n"
)
HEADING = (
    "=================================== FAILURES ===================================\n"
    "___________________________________ test_one ___________________________________\n"
)
COUNTS = "============================== 1 failed in 0.21s ===============================\n"
GO_FAILURE = "--- FAIL: TestAdd (0.00s)\n    add_test.go:9: got 4, want 3\nFAIL\n"
PASSED = "tests/test_a.py .. [100%]\n2 passed in 0.03s\n"
ASSERTION_ABOUT_A_DISK = (
    '>       assert "No space left on device" in message(28)\n'
    "E       AssertionError: assert 'No space left on device' in 'disk is full'\n"
    "tests/test_a.py:3: AssertionError\n"
    "=========================== short test summary info ============================\n"
    "FAILED tests/test_a.py::test_a - AssertionError: assert 'No space left on device' in 'disk is full'\n"
    "1 failed in 0.03s\n"
)
NO_USAGE_STATISTICS = (
    "ERROR 11-22 10:00:03 [usage_lib.py:90] Failed to send usage data\n"
    "Traceback (most recent call last):\n"
    '  File "/x/usage_lib.py", line 90, in send\n'
    "    requests.post(url)\n"
    "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='stats.vllm.ai', port=443): Max retries exceeded "
    "with url: / (Caused by NameResolutionError(\"Failed to resolve 'stats.vllm.ai'\"))\n"
)
LOADED = "INFO 11-22 10:00:09 [core.py:100] init engine took 4.20 seconds\n" * 3
SERVED = (
    "INFO:     Application startup complete.\n"
    'INFO:     127.0.0.1:44444 - "POST /v1/completions HTTP/1.1" 200 OK\n'
    "INFO:     Application shutdown complete.\n"
)


@pytest.fixture(autouse=True)
def _full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "is_disk_full", lambda *_: True)


NOTHING = CommandOutput(content=b"")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(files: Mapping[str, str], at: float = BEGAN_S + 60) -> None:
    for name, content in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(content)
        os.utime(name, (at, at))


def logs(checkout: Path, *named: str, began_at: str | None = BEGAN) -> LogsOfJob:
    return logs_of_job(named, checkout / "reports" / "job", [], began_at)


def can_be_retried(read: LogsOfJob, output: CommandOutput | None = NOTHING) -> bool:
    cause = diagnose_job(read, output, load_rules(), ENDED_S).cause
    return cause is not None and cause.may_be_retried


def test_patterns_mean_this_jobs_logs_alone(checkout: Path) -> None:
    write({"build_1.log": FULL_DISK, "logs/deep/er/server.log": "x\n", "notes.md": "x\n"})
    write({"build_0.log": FULL_DISK}, at=BEGAN_S - 3600)
    write({"build_2.log": ""})

    read = logs(checkout, "build_*.log", "logs/**/*.log", "gone.log", "-")

    assert sorted(read.names) == ["build_1.log", "logs/deep/er/server.log"]
    assert read.older == ["build_0.log"]
    assert read.missing.keys() == {"build_2.log", "gone.log", "./-"}
    assert read.is_whole


def test_a_pipe_among_the_logs_is_not_waited_for(checkout: Path) -> None:
    os.mkfifo("pipe.log")

    read = logs(checkout, "*.log")

    assert read.unusable == {"pipe.log": "not a regular file"}
    assert not read.is_whole


def test_the_logs_of_our_own_commands_count_if_those_failed(checkout: Path) -> None:
    root = checkout / "reports" / "job"
    write(
        {
            str(root / "run" / "command.log"): FULL_DISK,
            str(root / "launch" / "server.log"): "x\n",
            str(root / "diagnose" / "output.log"): ASSERTION,
            str(root / "killed" / "server.log"): "x\n",
        }
    )
    reports = [
        (root / "run", a_report(None, command="run", error=None, exit_code=1)),
        (root / "launch", a_report(Verdict.PASS, command="launch")),
    ]

    read = logs_of_job(["reports/**/*.log"], root, reports, BEGAN)

    names = {str(Path(name).absolute().relative_to(root)) for name in read.names}
    assert names == {"run/command.log", "killed/server.log", "launch/server.log"}
    alone = logs_of_job([], root, reports, BEGAN)
    assert {Path(name).parent.name for name in alone.names} == {"run", "killed"}


@pytest.mark.parametrize(
    ("files", "output", "expected"),
    [
        # What the command itself wrote may be a failure of the change.
        ({"build_1.log": FULL_DISK}, None, False),
        ({}, FULL_DISK, True),
        # A pattern behind which nothing was written hides nothing.
        ({"build_1.log": FULL_DISK}, "", True),
        # The assertion decides, wherever it stands.
        ({"build_1.log": FULL_DISK, "test.log": ASSERTION}, "", False),
        ({"build_1.log": FULL_DISK}, ASSERTION, False),
        ({}, FULL_DISK + ASSERTION, False),
        ({"test.log": ASSERTION}, "", False),
        # The artifacts of the failed test no longer fit.
        ({}, ASSERTION + FULL_DISK, False),
        ({}, GO_FAILURE + FULL_DISK, False),
        ({}, "src/a.cc:3:14: error: expected ';' before '}' token\n" + FULL_DISK, False),
        ({"build_1.log": GO_FAILURE + FULL_DISK}, "", False),
        ({}, PASSED + FULL_DISK, True),
        # A failed test is the change's, whatever its exception: it may be a mock.
        ({}, HEADING + "E       OSError: [Errno 28] No space left on device\n" + COUNTS, False),
        ({}, HEADING + "E       Failed: DID NOT RAISE ValueError\n" + COUNTS + FULL_DISK, False),
        # A test about the words.
        ({}, ASSERTION_ABOUT_A_DISK, False),
        # The command's last words point elsewhere, or nowhere.
        ({"server.log": FULL_DISK}, "$ bash x\naccuracy 0.41 is below 0.58\n", False),
        ({"server.log": FULL_DISK}, "$ bash x\ncurl: (7) Failed to connect to localhost\n", True),
        # A server that does without its statistics, and serves: the test failed by something else.
        ({"server.log": NO_USAGE_STATISTICS + SERVED}, "", False),
        ({"server.log": FULL_DISK + SERVED}, "", False),
        ({"server.log": FULL_DISK + "INFO: a request\n" * 20}, "", False),
        # A logger wrote the traceback, and nothing says that the server ended by it.
        ({"server.log": NO_USAGE_STATISTICS}, "", False),
        ({"server.log": NO_USAGE_STATISTICS + LOADED}, "$ bash ci/serving.sh\n", False),
    ],
)
def test_a_retry_is_allowed_only_by_a_cause_that_ended_the_command(
    files: dict[str, str], output: str | None, expected: bool, checkout: Path
) -> None:
    write(files)
    content = None if output is None else CommandOutput(content=output.encode())

    assert can_be_retried(logs(checkout, "*.log", "none/**/*.log"), content) is expected


def test_evidence_that_is_not_whole_allows_no_retry(checkout: Path) -> None:
    write({"build_1.log": FULL_DISK})
    whole = logs(checkout, "*.log")
    assert can_be_retried(whole)

    assert not can_be_retried(logs(checkout, "*.log", began_at=None))
    cut = CommandOutput(content=b"$ bash ci/serving.sh\n", problem="only its end")
    assert not can_be_retried(whole, cut)
    write({"core.log": "\0\1\2" * 500})
    assert not can_be_retried(logs(checkout, "*.log"))
    Path("core.log").unlink()
    os.mkfifo("pipe.log")
    assert not can_be_retried(logs(checkout, "*.log"))


@pytest.mark.parametrize("output", [b"", b"$ bash ci/serving.sh\n"])
def test_a_command_that_went_on_after_a_log_failed_by_something_else(
    checkout: Path, output: bytes
) -> None:
    write({"build_1.log": FULL_DISK}, at=ENDED_S - 11)

    assert not can_be_retried(logs(checkout, "*.log"), CommandOutput(content=output))


def test_what_was_not_read_is_named(checkout: Path) -> None:
    write({"build_1.log": FULL_DISK, "core.log": "\0\1\2" * 500})
    cut = CommandOutput(content=b"$ bash ci/serving.sh\n", problem="only its end")

    diagnosis = diagnose_job(logs(checkout, "*.log", "gone/*.log"), cut, load_rules(), ENDED_S)

    assert diagnosis.unreadable.keys() == {"core.log", "gone/*.log"}
    assert diagnosis.in_part == {OUTPUT_NAME: "only its end"}
    assert set(diagnosis.logs) == {OUTPUT_NAME, "build_1.log"}

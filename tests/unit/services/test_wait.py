# SPDX-License-Identifier: Apache-2.0
"""A wait without a command line: a request in, an outcome out."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from ci_doctor.errors import UsageError
from ci_doctor.model.outcome import Verdict
from ci_doctor.services.ready import parse_ready
from ci_doctor.services.wait import WaitRequest, run


def request(ready: str, **changes: Any) -> WaitRequest:
    probe = parse_ready(ready, 0, directory=Path())
    return WaitRequest(probe=probe, **{"limit_s": 20.0, **changes})


def test_a_process_that_is_ready_passes(tmp_path: Path) -> None:
    flag = tmp_path / "up"
    program = f"open({str(flag)!r}, 'w').close(); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as process:
        outcome = run(request(f"file:{flag}", pids=(process.pid,)))
    assert (outcome.verdict, outcome.findings) == (Verdict.PASS, ())
    facts = to_builtins(outcome.facts)
    assert (facts["version"], facts["pid"], facts["probe"]) == (1, process.pid, f"file {flag}")


def test_a_process_that_has_died_has_failed(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    outcome = run(request(f"file:{tmp_path}/never", pids=(process.pid,)))
    process.wait()
    assert outcome.verdict is Verdict.FAILED
    assert [finding.rule for finding in outcome.findings] == ["services/died"]
    assert to_builtins(outcome.facts)["cause"]["exit_code"] == 3


def test_an_end_that_nobody_knows_is_told_as_such(tmp_path: Path) -> None:
    outcome = run(request(f"file:{tmp_path}/never", pids=(2**22 - 1,)))
    assert to_builtins(outcome.facts)["cause"]["exit_unknown"]
    assert "exit code unknown" in (outcome.findings[0].evidence[-1].excerpt or "")


@pytest.mark.parametrize(
    ("ready", "changes", "words"),
    [
        ("file:x", {}, "exactly one of"),
        ("file:x", {"pids": (5,), "pidfile": Path("x")}, "exactly one of"),
        ("file:x", {"pids": (0,)}, "names no process"),
        ("file:x", {"pids": (-1,)}, "names no process"),
        ("file:x", {"pids": (2**22 + 1,)}, "names no process"),
        ("file:x", {"pids": (2**64,)}, "names no process"),
        ("file:x", {"pids": (1,)}, "first process"),
        ("file:x", {"pids": (os.getpid(),)}, "ci-doctor itself"),
        ("/health", {"pids": (5,)}, "no host and port"),
        ("log:x", {"pids": (5,)}, "needs a log"),
    ],
)
def test_what_makes_no_sense_is_refused(ready: str, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        run(request(ready, **changes))


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
@pytest.mark.timeout(60)
def test_a_log_whose_end_cannot_be_read_is_refused(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    make(tmp_path / "log")
    with pytest.raises(UsageError, match="no regular file"):
        run(request("file:x", pids=(5,), log=tmp_path / "log"))

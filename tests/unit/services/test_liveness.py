# SPDX-License-Identifier: Apache-2.0
"""A service hangs if it neither answers nor does anything else; one that is busy does not."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ci_doctor.services import liveness
from ci_doctor.services.liveness import Sample, describe_processes, progress, until_hung
from ci_doctor.services.probe import ProbeContext
from ci_doctor.services.ready import parse_ready
from ci_doctor.services.spec import Liveness

BEFORE = Sample(at=0.0, cpu_s={1: 5.0, 2: 1.0}, log=(10, 1), served={"a": 100, "b": 0})
LATER = structs.replace(BEFORE, at=10.0)


@pytest.mark.parametrize(
    ("changes", "waited_s", "shown"),
    [
        ({}, 0.0, None),
        ({"cpu_s": {1: 5.05, 2: 1.04}}, 0.0, None),  # it took our connection
        ({"cpu_s": {1: 5.05, 2: 1.06}}, 0.0, "it used 0.11 s of CPU"),
        ({"cpu_s": {1: 5.0, 3: 0.5}}, 0.0, "it used 0.50 s of CPU"),  # a new process
        ({"cpu_s": {}}, 0.0, None),
        ({}, 2.0, None),
        ({}, 3.0, "it waited 3.00 s for a CPU"),
        ({"log": (10, 2)}, 0.0, "it wrote to its log"),
        ({"log": (9, 1)}, 0.0, "it wrote to its log"),  # its middle was cut out
        ({"served": {"a": 100, "b": 17}}, 0.0, "it answered other requests"),
        ({"served": {"a": 100, "c": 17}}, 0.0, "it answered other requests"),
        ({"served": {"a": 101, "c": 1}}, 0.0, None),  # it closed connections, that of a probe too
        ({"served": {"a": 1, "c": 0}}, 0.0, None),  # one ended, another was never answered
        ({"served": None}, 0.0, None),
    ],
)
def test_what_shows_that_a_service_is_busy(
    changes: dict[str, Any], waited_s: float, shown: str | None
) -> None:
    assert progress(BEFORE, structs.replace(LATER, **changes), waited_s) == shown


@pytest.mark.parametrize(
    ("stopped", "changes", "shown"),
    [
        ({2}, {"cpu_s": {1: 9.0}, "log": (99, 9)}, None),  # an engine that waits for its worker
        ({2}, {"served": {"a": 117}}, "it answered other requests"),
        (set(), {"log": (99, 9)}, "it wrote to its log"),  # it goes on meanwhile
        ({3}, {"log": (99, 9)}, "it wrote to its log"),
    ],
)
def test_what_waits_for_a_stopped_process_is_not_busy(
    stopped: set[int], changes: dict[str, Any], shown: str | None
) -> None:
    before = structs.replace(BEFORE, stopped=frozenset({2}))
    now = structs.replace(LATER, stopped=frozenset(stopped), **changes)
    assert progress(before, now, 0.0) == shown


def test_only_failures_in_a_row_without_progress_count(monkeypatch: pytest.MonkeyPatch) -> None:
    # Attempts by turns: failed, busy, failed, answered, and then two failed ones without progress.
    answers = iter(["a", "busy", "b", None, "c", "d"])
    taken: list[Sample] = []

    async def attempt(*_: object) -> str | None:
        answer = next(answers)
        if answer == "busy":
            taken.append(structs.replace(BEFORE, log=(99, 9)))
        return answer

    def take_sample(*_: object) -> Sample:
        return taken.pop() if taken else BEFORE

    monkeypatch.setattr(liveness, "attempt", attempt)
    monkeypatch.setattr(liveness, "take_sample", take_sample)
    wanted = Liveness(probe=parse_ready("/", 1, directory=Path()), period_s=0.001, failures=2)
    hang = asyncio.run(until_hung(wanted, ProbeContext(), Path("log"), 1))
    assert (hang.failures, hang.answer) == (2, "http://127.0.0.1:1/: d")
    assert next(answers, "none is left") == "none is left"


def test_a_hang_is_named_on_a_machine_where_ci_doctor_itself_always_waits_for_a_cpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # It loses a tenth of a second in each attempt, however long that is.
    class AlwaysLate:
        def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
            self._waited_s = 0.1 if os.getpid() in tuple(pids()) else 0.0

        def now(self) -> dict[int, float]:
            return {}

        def since(self, _: object) -> float:
            return self._waited_s

    patiences: list[int] = []
    # One answer, after which everything is as at the beginning.
    answers = iter(["no answer", None])

    async def attempt(_: object, __: object, patience: int) -> str | None:
        patiences.append(patience)
        return next(answers, "no answer")

    def take_sample(*_: object) -> Sample:
        return structs.replace(BEFORE, at=0.3 * sum(patiences))

    monkeypatch.setattr(liveness, "CpuWaits", AlwaysLate)
    monkeypatch.setattr(liveness, "attempt", attempt)
    monkeypatch.setattr(liveness, "take_sample", take_sample)
    wanted = Liveness(probe=parse_ready("/", 1, directory=Path()), period_s=0.3, failures=2)
    hang = asyncio.run(until_hung(wanted, ProbeContext(), Path("log"), 1))
    assert hang.failures == 2
    assert patiences == [1, 2, 1, 2, 2]


@pytest.mark.parametrize(("probe", "is_known"), [("/", True), ("unix:s", False)])
def test_what_goes_over_a_unix_socket_is_not_known(
    probe: str, is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def attempt(*_: object) -> str:
        return "no answer"

    monkeypatch.setattr(liveness, "attempt", attempt)
    monkeypatch.setattr(liveness, "take_sample", lambda *_: BEFORE)
    wanted = Liveness(probe=parse_ready(probe, 1, directory=Path()), period_s=0.001, failures=1)
    hang = asyncio.run(until_hung(wanted, ProbeContext(), Path("log"), 1))
    assert hang.is_traffic_known is is_known


def test_a_hang_is_described_by_what_each_process_does(tmp_path: Path) -> None:
    spy = tmp_path / "py-spy"
    spy.write_text("#!/bin/sh\nprintf 'Process 1\\nThread 7 (idle)\\n    wait (x.py:3)\\n'\n")
    spy.chmod(0o755)
    program = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()

        def lines(pids: Iterable[int]) -> tuple[str, ...]:
            return describe_processes(tuple(pids), {"PATH": f"{tmp_path}:/usr/bin:/bin"})

        first, *stack = lines([process.pid, 2**22 + 1])
        assert first.startswith("python")
        assert f"(pid {process.pid})" in first
        assert stack == ["  Thread 7 (idle)", "      wait (x.py:3)"]
        assert lines([process.pid] * 12)[-1] == "and 4 more"

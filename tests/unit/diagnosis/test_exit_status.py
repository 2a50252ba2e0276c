# SPDX-License-Identifier: Apache-2.0
"""A retry is asked for only if nothing in the change can have brought the line about."""

from pathlib import Path
from typing import Any

import pytest

from ci_doctor.diagnosis.cause import Cause, LogPlace
from ci_doctor.diagnosis.diagnosis import diagnose, load_rules
from ci_doctor.diagnosis.exit_status import (
    evidence_of,
    may_be_retried,
    retry_policy,
    verdict_by_class,
)
from ci_doctor.diagnosis.failure_class import FailureClass, RetryPolicy
from ci_doctor.model.verdict import Verdict
from tests.support.diagnoses import a_cause


def classed(class_: FailureClass | None, text: str = "it broke", **changes: Any) -> Cause:
    place = LogPlace(log="job.log", line=7, text=text)
    return a_cause(class_=class_, place=place, **changes)


RETRIED_BY_CLASS = {
    FailureClass.NETWORK,
    FailureClass.REGISTRY,
    FailureClass.DISK,
    FailureClass.AGENT_LOST,
    FailureClass.GPU_HARDWARE,
}


@pytest.mark.parametrize("class_", FailureClass)
def test_a_class_alone_is_retried_only_if_it_lies_outside(class_: FailureClass) -> None:
    expected = Verdict.INFRA if class_ in RETRIED_BY_CLASS else Verdict.FAILED

    assert verdict_by_class(classed(class_)) is expected


@pytest.mark.parametrize(
    "class_",
    [
        FailureClass.HOST_OUT_OF_MEMORY,
        FailureClass.TIMEOUT,
        FailureClass.STALLED,
        FailureClass.CUDA_ERROR,
        FailureClass.RENDEZVOUS,
        FailureClass.IMPORT_RACE,
        FailureClass.TEST_ASSERTION,
        FailureClass.CODE_BUG,
        FailureClass.LINT,
        FailureClass.COMPILE_ERROR,
        FailureClass.CONFIGURATION,
    ],
)
def test_these_are_not_retried_even_if_a_rule_says_outside(class_: FailureClass) -> None:
    assert not may_be_retried(classed(class_, is_outside=True))


def test_gpu_memory_is_retried_only_if_another_process_holds_it() -> None:
    own = classed(FailureClass.GPU_OUT_OF_MEMORY)
    of_another = classed(FailureClass.GPU_OUT_OF_MEMORY, is_outside=True)

    assert (retry_policy(evidence_of(own)), retry_policy(evidence_of(of_another))) == (
        RetryPolicy.ASK,
        RetryPolicy.YES,
    )
    assert not may_be_retried(own)
    assert may_be_retried(of_another)


@pytest.mark.parametrize(
    "text",
    [
        "connect to http://127.0.0.1:8000/v1 failed: Connection refused",
        "Failed to connect to localhost port 8000",
        "connection to [::1]:8000 reset by peer",
        "dial tcp 0.0.0.0:9000: connect: connection refused",
    ],
)
def test_a_peer_on_this_machine_is_not_the_network(text: str) -> None:
    assert not may_be_retried(classed(FailureClass.NETWORK, text))
    assert may_be_retried(classed(FailureClass.NETWORK, "Could not resolve host: pypi.org"))


def test_no_cause_and_no_class_are_never_retried() -> None:
    assert verdict_by_class(None) is Verdict.FAILED
    assert verdict_by_class(classed(None)) is Verdict.FAILED
    assert verdict_by_class(classed(None, is_outside=True)) is Verdict.FAILED


def test_what_the_job_survived_is_no_reason_to_retry_it() -> None:
    survived = a_cause(class_=FailureClass.DISK, is_outside=True, is_final=False)
    assert not may_be_retried(survived)
    assert may_be_retried(a_cause(class_=FailureClass.DISK, is_outside=True, is_final=True))


@pytest.mark.parametrize(
    ("later", "code"),
    [
        ("", Verdict.INFRA),
        ("AssertionError: 3 != 4\n", Verdict.FAILED),
        ("--- FAIL: TestX (0.03s)\n", Verdict.FAILED),
        ("make: *** [Makefile:3: test] Error 1\n", Verdict.INFRA),
        ("working on\n" * 200, Verdict.FAILED),
    ],
)
def test_a_full_disk_asks_for_a_retry_only_if_the_job_ended_by_it(
    later: str, code: Verdict, tmp_path: Path
) -> None:
    log = tmp_path / "job.log"
    header = (
        "Traceback (most recent call last):\n" + '  File "x.py", line 3, in <module>\n    run()\n'
    )
    log.write_text("OSError: [Errno 28] No space left on device: '/cache'\n")
    with log.open("a") as file:
        file.write(header * later.startswith("AssertionError") + later)
    cause = diagnose([str(log)], load_rules()).cause
    assert verdict_by_class(cause) is code

# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.diagnosis.outside import is_disk_full, retry_policy, verdict_by_class
from ci_doctor.model.cause import Cause, FailureClass, LogLine, RetryPolicy
from ci_doctor.model.outcome import Verdict
from tests.support.diagnoses import a_cause


def classed(class_: FailureClass | None, text: str = "it broke", **changes: Any) -> Cause:
    place = LogLine(file="job.log", line=7, text=text)
    return a_cause(class_=class_, place=place, **changes)


@pytest.mark.parametrize("class_", [None, *FailureClass])
def test_a_class_alone_never_asks_for_a_retry(class_: FailureClass | None) -> None:
    assert verdict_by_class(classed(class_)) is Verdict.FAILED
    assert verdict_by_class(None) is Verdict.FAILED


@pytest.mark.parametrize("class_", [FailureClass.NETWORK, FailureClass.DISK])
def test_a_retry_needs_a_proof_an_end_by_it_and_a_cure(class_: FailureClass) -> None:
    proven = classed(class_, is_outside=True)
    survived = classed(class_, is_outside=True, is_final=False)
    incurable = classed(FailureClass.CODE_BUG, is_outside=True)

    assert verdict_by_class(proven) is Verdict.INFRA
    assert not survived.may_be_retried
    assert not incurable.may_be_retried


@pytest.mark.parametrize(
    "text",
    [
        "curl: (22) The requested URL returned error: 404",
        "2026-01-02 03:04:05 ERROR 403: Forbidden.",
        "npm error code E401",
        "HTTPError: 404 Client Error: Not Found for url: https://pypi.org/simple/x/",
        "Hash mismatch for `torch==2.9.0`",
        "SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate",
        "ERROR: pull access denied for org/image, repository does not exist",
    ],
)
def test_what_another_run_meets_again_is_not_cured_by_it(text: str) -> None:
    assert retry_policy(FailureClass.NETWORK, text) is RetryPolicy.NO
    assert not classed(FailureClass.NETWORK, text, is_outside=True).may_be_retried


@pytest.mark.parametrize(
    "text",
    [
        "curl: (6) Could not resolve host: pypi.org",
        "getaddrinfo ENOTFOUND registry.npmjs.org",
        "HTTPError: 503 Server Error: Service Unavailable for url: https://pypi.org/simple/x/",
        "429 Client Error: Too Many Requests for url: https://huggingface.co/api",
    ],
)
def test_an_outage_is_cured_by_another_run(text: str) -> None:
    assert retry_policy(FailureClass.NETWORK, text) is RetryPolicy.YES


@pytest.mark.parametrize(
    "text",
    [
        "E   openai.APIConnectionError: Connection error.",
        "E   ConnectionRefusedError: [Errno 111] Connection refused",
        "E   openai.APITimeoutError: Request timed out.",
        "E   openai.InternalServerError: Error code: 502",
        "E   requests.exceptions.HTTPError: 503 Server Error for url: http://localhost:8000/v1",
    ],
)
@pytest.mark.parametrize("class_", [FailureClass.CODE_BUG, FailureClass.TEST_ASSERTION])
def test_a_client_s_failure_against_a_server_asks_a_person(class_: FailureClass, text: str) -> None:
    assert retry_policy(class_, text) is RetryPolicy.ASK
    assert retry_policy(class_, "E   KeyError: 'reader'") is RetryPolicy.NO


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("ValueError: 40 heads for 3 GPUs", RetryPolicy.NO),
        ("pydantic_core._pydantic_core.ValidationError: 1 validation error", RetryPolicy.NO),
        ("java.lang.NullPointerException", RetryPolicy.NO),
        ("RuntimeError: the engine could not be loaded", RetryPolicy.ASK),
        ("widgets.errors.QuotaError: the quota of the team is used up", RetryPolicy.ASK),
        ("OSError: [Errno 5] Input/output error", RetryPolicy.ASK),
    ],
)
def test_only_an_exception_that_rejects_what_it_was_given_comes_again(
    text: str, policy: RetryPolicy
) -> None:
    assert retry_policy(FailureClass.CODE_BUG, text) is policy


def test_a_server_on_this_machine_asks_a_person() -> None:
    text = "HTTPConnectionPool(host='localhost', port=8000): Read timed out."

    assert retry_policy(FailureClass.NETWORK, text) is RetryPolicy.ASK


def test_disks_are_looked_at_also_where_the_folder_is_gone_and_there_is_none_for_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = classed(FailureClass.DISK, "No space left on device", is_outside=True)
    # Whether a disk of this machine is full just now is not this test's.
    looked = is_disk_full(full)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setenv("TMPDIR", str(gone))

    assert is_disk_full(full) == looked

# SPDX-License-Identifier: Apache-2.0
"""No secret of a test's name or message reaches the database."""

import msgspec
from msgspec.structs import replace

from ci_doctor.history.evidence import (
    AttemptEvidence,
    AttemptOutcome,
    JobEvidence,
    ParsedEvidence,
    job_without_secrets,
    without_secrets,
)
from ci_doctor.model.cause import Cause
from ci_doctor.system.secrets.redaction import Redactor

SECRET = "hunter2-of-the-build"
CAUSE = Cause(fingerprint="f", title=f"login with {SECRET} failed")


def evidence(name: str, cause: Cause | None = None) -> ParsedEvidence:
    attempt = AttemptEvidence(
        suite="tests.a", name=name, outcome=AttemptOutcome.FAILED, cause=cause
    )
    return ParsedEvidence(form="junit", job=JobEvidence(cause=cause), attempts=(attempt,))


def test_a_secret_in_a_name_or_a_title_is_hidden_and_nothing_else_changes() -> None:
    hide = Redactor([SECRET]).text
    kept = without_secrets(evidence(f"test[{SECRET}]", CAUSE), hide)

    assert SECRET not in msgspec.json.encode(kept).decode()
    (attempt,) = kept.attempts
    assert (attempt.suite, attempt.name) == ("tests.a", "test[[redacted]]")
    assert kept.job.cause == attempt.cause
    assert attempt.cause is not None
    assert (attempt.cause.fingerprint, attempt.cause.title) == ("f", "login with [redacted] failed")


def test_a_secret_in_what_describes_a_job_is_hidden_and_what_identifies_it_stays() -> None:
    texts = ("pipeline", "step", "label", "branch", "agent", "queue")
    job = replace(
        JobEvidence(key="7", commit="abc", build=1), **dict.fromkeys(texts, f"cuda {SECRET}")
    )

    kept = job_without_secrets(job, Redactor([SECRET]).text)

    assert [getattr(kept, name) for name in texts] == ["cuda [redacted]"] * 6
    assert (kept.key, kept.commit, kept.build) == ("7", "abc", 1)
    parsed = without_secrets(ParsedEvidence(form="junit", job=job), Redactor([SECRET]).text)
    assert parsed.job == kept


def test_evidence_without_a_secret_is_the_same_object() -> None:
    parsed = evidence("test_a")
    assert without_secrets(parsed, Redactor([SECRET]).text) is parsed

# SPDX-License-Identifier: Apache-2.0
"""No secret of a test's name or message reaches the database."""

from pathlib import Path

import msgspec
from msgspec.structs import replace

from ci_doctor.history.evidence import (
    AttemptEvidence,
    AttemptOutcome,
    JobEvidence,
    ParsedEvidence,
    PlacedFile,
    evidence_of_file,
    job_without_secrets,
    stored_text,
    surroundings,
    without_secrets,
)
from ci_doctor.history.ingest import NamedFile, read_file
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


def test_a_name_as_people_write_it_stays() -> None:
    assert stored_text("tests.test_a.TestX::test_b[é-1]") == "tests.test_a.TestX::test_b[é-1]"


def test_long_names_stay_different_and_fit_into_an_index() -> None:
    first, second = stored_text("é" * 5_000 + "1"), stored_text("é" * 5_000 + "2")

    assert first != second
    assert len(first) == len(second) == 300


def test_what_no_database_takes_is_replaced(tmp_path: Path) -> None:
    name = "a\0b\x1b[31m"
    file = tmp_path / "te\udcff.xml"
    file.write_text(
        '<testsuite><testcase classname="s" name="x"><failure message="m"/></testcase></testsuite>'
    )
    placed = read_file(NamedFile(path=file, is_named=True))
    assert isinstance(placed, PlacedFile)
    # A report of ours may hold what no XML can.
    (read,) = placed.parsed.attempts
    cause = Cause(fingerprint="f", title=name)
    parsed = replace(placed.parsed, attempts=(replace(read, name=name, cause=cause),))
    placed = replace(placed, parsed=parsed)
    evidence = evidence_of_file(placed, surroundings([], []), JobEvidence(branch=name))
    (attempt,) = evidence.attempts
    assert attempt.cause is not None
    texts = (attempt.name, attempt.cause.title, evidence.job.branch)
    assert texts == ("a\ufffdb",) * 3
    assert evidence.place.encode().endswith("te\ufffd.xml".encode())

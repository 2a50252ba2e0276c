# SPDX-License-Identifier: Apache-2.0

import contextlib

import pytest
from msgspec.structs import replace

from ci_doctor.errors import UsageError
from ci_doctor.history.evidence import AttemptOutcome, JobEvidence
from ci_doctor.history.own_report import OtherXmlError, evidence_of, known_job, parsed, read_record
from ci_doctor.model.outcome import About, Case, CaseOutcome, Verdict
from tests.support.builders import a_report


def test_cases_of_one_name_are_attempts_in_their_order() -> None:
    case = Case(name="n", group="g", outcome=CaseOutcome.FAILED)
    again = replace(case, outcome=CaseOutcome.PASSED)

    attempts = evidence_of(a_report(Verdict.FAILED, cases=(case, again))).attempts

    assert [(each.number, each.outcome) for each in attempts] == [
        (1, AttemptOutcome.FAILED),
        (2, AttemptOutcome.PASSED),
    ]


def test_a_build_with_a_number_that_no_database_holds_is_unknown() -> None:
    report = a_report(Verdict.PASS, about=About(job="7", build=2**63))

    assert evidence_of(report).job.build is None


@pytest.mark.parametrize(("index", "label"), [(None, "cuda 12"), (3, None)])
def test_a_record_has_the_label_of_its_step_unless_it_is_a_parallel_job(
    index: int | None, label: str | None
) -> None:
    record = {
        "schema": "ci-doctor/job/1",
        "tool_version": "1",
        "about": {"job": "7", "step": "unit"}
        | ({} if index is None else {"parallel_index": index}),
        "label": "cuda 12",
        "verdict": "pass",
        "summary": "s",
    }

    assert read_record(record).job.label == label


def test_words_name_the_job() -> None:
    job = known_job(["commit=abc", "build=12", "job=7"], About())

    assert job == JobEvidence(commit="abc", build=12, key="7")


def test_a_job_of_buildkite_is_known_and_a_checkout_alone_is_not() -> None:
    assert known_job((), About(job="7", commit="abc")).commit == "abc"
    assert known_job((), About(job="7"), "cuda 12").label == "cuda 12"
    assert known_job((), About(commit="abc"), "cuda 12") == JobEvidence()


@pytest.mark.parametrize("word", ["commit", "commit=", "comit=abc", "build=x", f"build={10**20}"])
def test_other_words_are_errors(word: str) -> None:
    with pytest.raises(UsageError, match="--about"):
        known_job([word], About())


PASSED, FAILED, ERROR = AttemptOutcome.PASSED, AttemptOutcome.FAILED, AttemptOutcome.ERROR


@pytest.mark.parametrize("content", [b'{"a": 1}', b"[]", b"plain text"])
def test_a_file_of_something_else_is_no_evidence(content: bytes) -> None:
    assert parsed(content) is None


@pytest.mark.parametrize("content", [b"", b"  \n", b'{"tests": [', b"[" * 100_000])
def test_a_damaged_file_is_an_error(content: bytes) -> None:
    with pytest.raises(UsageError):
        parsed(content)


def test_junit_is_recognised_after_a_long_comment() -> None:
    text = f'<!--{"x" * 10_000}--><testsuite><testcase name="x"/></testsuite>'

    evidence = parsed(text.encode())

    assert evidence is not None
    assert len(evidence.attempts) == 1


def test_xml_of_something_else_is_told_by_its_root() -> None:
    with pytest.raises(OtherXmlError, match="its root is <html>"):
        parsed(b"<html></html>")


JUNIT = '<?xml version="1.0"{0}?><testsuite name="s"><testcase classname="k" name="\u4e2d\u6587"/></testsuite>'


@pytest.mark.parametrize(
    ("declared", "encoding"),
    [
        ("Shift_JIS", "shift_jis"), ("gbk", "gbk"), ("GB2312", "gb2312"), ("GB18030", "gb18030"),
        ("EUC-JP", "euc_jp"), ("Big5", "big5"), ("UTF-16", "utf-16"), ("UTF-16LE", "utf-16-le"),
        ("UTF-16BE", "utf-16-be"), ("", "utf-16-le"), ("", "utf-16-be"), ("utf-8", "utf-8-sig"), ("UTF-32", "utf-32"),
    ],
)  # fmt: skip
def test_a_file_is_read_in_its_encoding(declared: str, encoding: str) -> None:
    text = JUNIT.format(f' encoding="{declared}"' if declared else "")

    read = parsed(text.encode(encoding))

    assert read is not None
    assert [each.name for each in read.attempts] == ["\u4e2d\u6587"]


@pytest.mark.parametrize("declaration", ["", ' encoding="utf-8"'])
def test_bytes_of_another_encoding_and_control_characters_cost_no_attempt(declaration: str) -> None:
    text = JUNIT.format(declaration).replace(
        "/></testsuite>", "><failure>{0}</failure></testcase></testsuite>"
    )
    for junk in (b"caf\xe9", b"a\x00b", b"\x1b[31m", b"\xff\xfe"):
        head, tail = text.split("{0}")

        read = parsed(head.encode() + junk + tail.encode())

        assert read is not None
        assert [each.outcome for each in read.attempts] == [AttemptOutcome.FAILED]


def test_two_names_that_differ_in_bytes_of_no_encoding_stay_two_tests() -> None:
    cases = b'<testcase name="\xe9"/><testcase name="\xe8"/>'

    read = parsed(b'<testsuite name="s">' + cases + b"</testsuite>")

    assert read is not None
    assert [each.name for each in read.attempts] == ["\\xe9", "\\xe8"]


@pytest.mark.parametrize(
    "content",
    [
        b"", b"<", b"<?xml", b"<testsuite", b"<testsuite><testcase", JUNIT.format("").encode()[:-5], b"\x00" * 50,
        b'<?xml version="1.0" encoding="Shift_JIS"?><testsuite name="\xff\xff"/>',
        b'<?xml version="1.0" encoding="punycode"?><testsuite/>', b'<?xml version="1.0" encoding="zlib"?><testsuite/>',
        b'<!DOCTYPE x [<!ENTITY a "b">]><testsuite/>', b"<testsuite>&#0;</testsuite>",
    ],
)  # fmt: skip
def test_a_damaged_file_is_a_usage_error_and_never_another_one(content: bytes) -> None:
    with contextlib.suppress(UsageError):
        assert parsed(content) is None

import contextlib
import json
from typing import Any

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.history.evidence import AttemptOutcome, ParsedEvidence
from ci_doctor.history.reading.forms import OtherXmlError, parsed

PASSED, FAILED, ERROR = AttemptOutcome.PASSED, AttemptOutcome.FAILED, AttemptOutcome.ERROR


def read(value: Any) -> ParsedEvidence:
    evidence = parsed(json.dumps(value).encode())
    assert evidence is not None
    return evidence


def test_pytest_json_report_names_tests_as_junit_does() -> None:
    evidence = read(
        {
            "created": 1_794_000_010.0,
            "duration": 10.0,
            "exitcode": 1,
            "summary": {"total": 1},
            "tests": [
                {
                    "nodeid": "tests/test_a.py::TestX::test_b[p::q]",
                    "outcome": "failed",
                    "setup": {"duration": 0.25, "outcome": "passed"},
                    "call": {
                        "duration": 0.5,
                        "outcome": "failed",
                        "crash": {"message": "assert 1 == 2"},
                    },
                }
            ],
        }
    )
    (one,) = evidence.attempts

    assert evidence.form == "pytest-json-report"
    assert (one.suite, one.name) == ("tests.test_a.TestX", "test_b[p::q]")
    assert (one.outcome, one.duration_ms, one.started_ms) == (FAILED, 750, 1_794_000_000_000)
    assert one.cause is not None


def test_the_lines_of_pytest_reportlog_are_one_attempt_up_to_a_teardown() -> None:
    def line(test: str, when: str, outcome: str) -> dict[str, Any]:
        report = {"$report_type": "TestReport", "nodeid": f"test_a.py::{test}", "when": when}
        return {**report, "outcome": outcome, "duration": 0.5, "start": 1_794_000_000.0}

    lines = [
        {"$report_type": "SessionStart", "pytest_version": "9"},
        line("x", "setup", "passed"),
        line("y", "setup", "passed"),  # of another worker of pytest-xdist
        line("x", "call", "rerun"),
        line("x", "teardown", "passed"),
        line("x", "setup", "passed"),
        line("x", "call", "passed"),
        line("x", "teardown", "passed"),
    ]

    evidence = parsed("\n".join(map(json.dumps, lines)).encode())

    assert evidence is not None
    assert [(each.name, each.number, each.outcome) for each in evidence.attempts] == [
        ("x", 1, FAILED),
        ("x", 2, PASSED),
        ("y", 1, ERROR),  # its worker died
    ]


def test_test_engine_json_has_the_job_of_its_upload() -> None:
    result = {
        "scope": "tests/test_a.py::TestX",
        "name": "test_b",
        "result": "failed",
        "failure_reason": "E assert 1 == 2",
        "history": {"section": "top", "start_at": 12.5, "duration": 0.25},
    }

    evidence = read(
        {"format": "json", "run_env": {"commit_sha": "abc", "number": "81"}, "data": [result]}
    )
    (one,) = evidence.attempts

    assert (one.suite, one.name, one.outcome) == ("tests.test_a.TestX", "test_b", FAILED)
    assert (one.started_ms, one.duration_ms) == (None, 250)
    assert (evidence.job.commit, evidence.job.build) == ("abc", 81)


def test_a_test_that_pytest_json_report_calls_rerun_failed_first() -> None:
    phase = {"duration": 0.5, "outcome": "passed"}
    test = {"nodeid": "test_a.py::x", "outcome": "rerun"}
    evidence = read(
        {
            "exitcode": 0,
            "summary": {},
            "tests": [{**test, "setup": phase, "call": phase, "teardown": phase}],
        }
    )

    assert [each.outcome for each in evidence.attempts] == [FAILED, PASSED]


def test_what_the_collector_for_pytest_cut_in_two_is_one_name() -> None:
    cut = {"scope": "tests/test_a.py::TestX::test_ok[a", "name": "b]", "history": {}}

    (one,) = read([cut]).attempts

    assert (one.suite, one.name) == ("tests.test_a.TestX", "test_ok[a::b]")
    # It has no `result`, and shows neither a pass nor a failure.
    assert one.outcome is AttemptOutcome.SKIPPED


@pytest.mark.parametrize("content", [b'{"a": 1}', b"[]", b"plain text"])
def test_a_file_of_something_else_is_no_evidence(content: bytes) -> None:
    assert parsed(content) is None


@pytest.mark.parametrize("content", [b"", b"  \n", b'{"tests": [', b"[" * 100_000])
def test_a_damaged_file_is_an_error(content: bytes) -> None:
    with pytest.raises(UsageError):
        parsed(content)


@pytest.mark.parametrize(
    "text",
    [
        '{"exitcode": 1, "summary": {}, "tests": [1]}',
        '{"exitcode": 1, "summary": {}, "tests": 5}',
        '{"exitcode": 1, "summary": {}, "tests": [{"outcome": []}]}',
        '{"exitcode": 1, "summary": {}, "duration": [1], "tests": []}',
        '[{"name": "x", "history": {"duration": []}}]',
    ],
)
def test_json_of_a_known_form_with_other_values_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(UsageError, match="it is not"):
        parsed(text.encode())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_junit_in_another_encoding_is_read(encoding: str) -> None:
    declared = "utf-16" if encoding == "utf-16" else "utf-8"
    text = f'<?xml version="1.0" encoding="{declared}"?><testsuite><testcase name="é"/></testsuite>'

    evidence = parsed(text.encode(encoding))

    assert evidence is not None
    assert [each.name for each in evidence.attempts] == ["é"]


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

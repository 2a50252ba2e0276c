# SPDX-License-Identifier: Apache-2.0

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.history.evidence import AttemptEvidence, AttemptOutcome
from ci_doctor.history.own_report import read_junit
from tests.support.junit_texts import FAILURE, junit_of

PASSED, FAILED, ERROR = AttemptOutcome.PASSED, AttemptOutcome.FAILED, AttemptOutcome.ERROR


def attempts(text: str) -> list[AttemptEvidence]:
    evidence = read_junit(text.encode())
    assert evidence is not None
    return list(evidence.attempts)


def case(children: str, attributes: str = 'classname="a" name="b" time="1"') -> str:
    return f'<testsuite name="s"><testcase {attributes}>{children}</testcase></testsuite>'


def test_a_test_is_named_timed_and_judged() -> None:
    (one,) = attempts(junit_of([("test_x[1-é]", False)]))

    assert (one.suite, one.name, one.outcome) == ("tests.test_a", "test_x[1-é]", FAILED)
    assert one.started_ms == 1_793_700_000_000
    assert one.duration_ms == 500
    assert one.cause is not None
    assert one.cause.title == "AssertionError: assert 3 == 4"


def test_executions_of_one_test_are_attempts_in_their_order() -> None:
    rerun = attempts(junit_of([("test_x", False), ("test_y", True), ("test_x", True)]))

    assert [(each.name, each.number, each.outcome) for each in rerun] == [
        ("test_x", 1, FAILED),
        ("test_y", 1, PASSED),
        ("test_x", 2, PASSED),
    ]


TEARDOWN = '<error message="failed on teardown with &quot;OSError&quot;">t</error>'
SUITE = '<testsuite name="pytest"><testcase classname="a" name="b"/></testsuite>'


@pytest.mark.parametrize(
    ("text", "outcomes"),
    [
        # surefire's own elements: flaky ones before the pass, reruns after the first failure
        (case('<flakyFailure type="T"/><flakyError message="e"/>'), [FAILED, ERROR, PASSED]),
        (case(FAILURE + "<rerunFailure message='again'/>"), [FAILED, FAILED]),
        # the error of a teardown: beside a failure, of the second run, alone
        (case(f"{FAILURE}</testcase><testcase classname='a' name='b'>{TEARDOWN}"), [FAILED]),
        (
            case(f"</testcase><testcase classname='a' name='b'>{TEARDOWN}").replace(
                'name="s"', 'name="pytest"'
            ),
            [FAILED, ERROR],
        ),
        (case('<error message="failed on teardown"/>'), [ERROR]),
        # files of two runs that were merged into one
        (f"<testsuites>{SUITE}{SUITE}</testsuites>", [PASSED] * 2),
        # gtest
        (case("", 'name="DISABLED_B" status="notrun" classname="S"'), [AttemptOutcome.SKIPPED]),
    ],
)
def test_the_elements_of_each_tool_are_its_executions(
    text: str, outcomes: list[AttemptOutcome]
) -> None:
    read = attempts(text)

    assert [each.outcome for each in read] == outcomes
    assert [each.number for each in read] == [*range(1, len(outcomes) + 1)]


def test_an_attempt_that_pytest_rerunfailures_ran_again_has_failed() -> None:
    # It writes `<testcase/>` for it, as for a pass (pytest-rerunfailures 16.1 under pytest 9).
    rerun = attempts(junit_of([("test_x", True), ("test_x", True), ("test_y", True)]))

    assert [(each.name, each.outcome) for each in rerun] == [
        ("test_x", FAILED),
        ("test_x", PASSED),
        ("test_y", PASSED),
    ]
    # Of another tool nothing says so.
    other = junit_of([("test_x", True), ("test_x", True)]).replace('name="pytest"', 'name="s"')
    assert [each.outcome for each in attempts(other)] == [PASSED, PASSED]


def test_suites_within_suites_keep_the_time_of_the_nearest_one() -> None:
    inner = '<testsuite name="i" timestamp="2026-11-04T00:00:00Z"><testcase name="t"/></testsuite>'
    outer = f'<testsuite name="o" timestamp="2026-11-03T00:00:00Z"><testcase name="t"/>{inner}</testsuite>'

    read = attempts(f"<testsuites>{outer}</testsuites>")

    assert [each.suite for each in read] == ["o", "i"]
    assert read[1].started_ms == (read[0].started_ms or 0) + 86_400_000


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            '<!DOCTYPE t [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><testsuites>&b;</testsuites>',
            "document type",
        ),
        (
            '<!DOCTYPE t [<!ENTITY x SYSTEM "file:///etc/passwd">]><testsuite>&x;</testsuite>',
            "document type",
        ),
        ("<testsuites><testsuite>", "not well-formed"),
        ("<testsuite>" * 100 + "</testsuite>" * 100, "nested too deep"),
        ("<html></html>", "its root is <html>"),
        ('<testsuite name="z" tests="0"/>', "no test case"),
    ],
)
def test_what_is_damaged_or_dangerous_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        read_junit(text.encode())


@pytest.mark.parametrize(
    ("time", "ms"),
    # A comma before decimals is no group of thousands.
    [*((each, None) for each in ("nan", "inf", "-1", "1e400", "soon", "")), ("0,123", 123)],
)
def test_a_time_that_is_none_is_unknown(time: str, ms: int | None) -> None:
    (one,) = attempts(case("", f'classname="a" name="b" time="{time}"'))

    assert one.duration_ms == ms


def test_equal_failures_of_two_runs_have_one_fingerprint() -> None:
    first = attempts(case('<failure message="timed out after 12.3 s on 0x7f3a"/>'))
    second = attempts(case('<failure message="timed out after 14.9 s on 0x55aa"/>'))

    assert first[0].cause is not None
    assert second[0].cause is not None
    assert first[0].cause.fingerprint == second[0].cause.fingerprint


def test_a_suite_in_a_suite_does_not_lend_its_name_to_what_follows() -> None:
    inner = '<testsuite name="inner"><testcase name="x"/></testsuite>'

    read = attempts(f'<testsuite name="outer">{inner}<testcase name="y"/></testsuite>')

    assert [(each.suite, each.name) for each in read] == [("inner", "x"), ("outer", "y")]


def test_an_unknown_encoding_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown encoding"):
        attempts('<?xml version="1.0" encoding="no-such"?><testsuite/>')


def test_the_verdict_of_a_run_of_ours_is_no_test() -> None:
    verdict = case(FAILURE, 'classname="ci-doctor.diagnose" name="verdict"')

    assert read_junit(verdict.encode()) is None


@pytest.mark.parametrize(
    ("at", "end"), [("2026-11-03T10:00:00", 1_793_700_002_500), ("2026-11-03T10:00:00Z", None)]
)
def test_a_file_without_offsets_says_when_it_ended_if_utc_is_meant(
    at: str, end: int | None
) -> None:
    evidence = read_junit(junit_of([("test_x", True)], at).encode())

    assert evidence is not None
    assert evidence.zoneless_end_ms == end


def rows_of(*suites: str) -> list[str | None]:
    read = attempts("<testsuites>" + "".join(suites) + "</testsuites>")
    return [each.row for each in read]


def suite_of(attributes: str, *cases: str) -> str:
    written = "".join(f'<testcase classname="a.spec.ts" name="{name}"/>' for name in cases)
    return f"<testsuite {attributes}>{written}</testsuite>"


def test_one_test_in_two_suites_is_told_apart_by_their_hosts_or_places() -> None:
    chromium = suite_of('name="a.spec.ts" hostname="chromium"', "x", "y")
    firefox = suite_of('name="a.spec.ts" hostname="firefox"', "x")
    plain = suite_of('name="pytest"', "x")

    assert rows_of(chromium, firefox) == ["chromium", None, "firefox"]
    assert rows_of(plain, plain) == ["suite 1", "suite 2"]
    assert rows_of(chromium, chromium)[::2] == ["chromium suite 1", "chromium suite 2"]


def test_executions_in_one_suite_are_attempts_of_each_other() -> None:
    rows = rows_of(suite_of('name="s" hostname="h"', "x", "x"), suite_of('name="t"', "y"))
    assert rows == [None] * 3

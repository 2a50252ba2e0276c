# SPDX-License-Identifier: Apache-2.0


import msgspec
import pytest

from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.facts.diagnose import FileState, SetVariable
from ci_doctor.model.outcome import (
    Evidence,
    Finding,
    RemedyKind,
    Rule,
    Severity,
    Verdict,
    concluded,
    junit_identity,
)
from tests.support.builders import a_report as report


def finding(severity: Severity, summary: str = "x") -> Finding:
    return Finding(rule="service/died", severity=severity, summary=summary)


@pytest.mark.parametrize("verdict", [*Verdict, None])
def test_a_pass_beside_an_error_has_failed_and_any_other_verdict_stays(
    verdict: Verdict | None,
) -> None:
    errors = (finding(Severity.NOTE), finding(Severity.ERROR, "a leak"))
    if verdict in {Verdict.PASS, Verdict.FLAKY}:
        assert concluded(verdict, "all is well", errors) == (
            Verdict.FAILED,
            "all is well; but a leak",
        )
    else:
        assert concluded(verdict, "so it is", errors) == (verdict, "so it is")
    assert concluded(verdict, "so it is", (finding(Severity.WARNING),)) == (verdict, "so it is")


@pytest.mark.parametrize("value", [report(), SetVariable(name="A", value="1", why="b")])
def test_values_do_not_change(value: msgspec.Struct) -> None:
    with pytest.raises(AttributeError):
        setattr(value, value.__struct_fields__[0], "x")


def test_words_are_what_programs_read() -> None:
    finding = Finding(rule="a/b", severity=Severity.NOTE, summary="c")
    assert msgspec.to_builtins(finding)["severity"] == "note"
    assert [str(state) for state in FileState] == ["create", "replace", "unchanged", "remove"]


@pytest.mark.parametrize(
    ("node_id", "classname", "name"),
    [
        ("tests/test_a.py::test_b", "tests.test_a", "test_b"),
        ("test_a.py::TestC::test_b[x::y/z]", "test_a.TestC", "test_b[x::y/z]"),
        # pytest writes the path of a doctest with dots, too.
        ("docs/guide.rst::guide.rst", "docs.guide.rst", "guide.rst"),
        ("test_a", "", "test_a"),
    ],
)
def test_a_node_id_has_the_names_that_pytest_writes_into_junit_files(
    node_id: str, classname: str, name: str
) -> None:
    assert junit_identity(node_id) == (classname, name)


RULE = Rule(id="service/died", severity=Severity.ERROR, meaning="It ended.", remedy="Read its log.")


def test_a_finding_has_the_rules_id_and_severity_and_the_remedy_of_its_case() -> None:
    evidence = (Evidence(excerpt="x"),)
    assert RULE.finding("vllm died", evidence=evidence, remedy="less a.log") == Finding(
        rule="service/died",
        severity=Severity.ERROR,
        summary="vllm died",
        evidence=evidence,
        remedy="less a.log",
        remedy_kind=RemedyKind.ADVICE,
    )
    assert RULE.finding("vllm died").remedy is None


def test_a_case_may_be_less_severe_than_usual() -> None:
    assert RULE.finding("x", severity=Severity.NOTE).severity is Severity.NOTE


def test_no_code_is_one_that_the_agent_or_the_shell_gives_a_meaning() -> None:
    assert {125, 126, 127}.isdisjoint(ExitCode)
    assert {code for code in ExitCode if code > 127} == {ExitCode.SIGINT, ExitCode.SIGTERM}

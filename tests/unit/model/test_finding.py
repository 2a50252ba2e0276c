# SPDX-License-Identifier: Apache-2.0
from ci_doctor.model.finding import Evidence, Finding, RemedyKind, Rule, Severity

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

# SPDX-License-Identifier: Apache-2.0
"""What the answer of a probe means."""

from typing import Any

import pytest

from ci_doctor.imports.probe import probe_outcome
from ci_doctor.model.facts.import_race import ImportProbeFacts
from ci_doctor.model.verdict import Verdict


def a_result(**fields: Any) -> ImportProbeFacts:
    known = {
        "module": "lazy",
        "attribute": "Thing",
        "python": "/usr/bin/python3",
        "exposed": False,
        "error": None,
        "loaded_before": False,
        "replaced": ("lazy",),
        "immune": False,
        "rule": None,
    }
    return ImportProbeFacts(**{**known, **fields})


@pytest.mark.parametrize(
    ("result", "verdict", "part", "rules"),
    [
        (
            a_result(exposed=True, error="ImportError: no"),
            Verdict.FAILED,
            "lazy:Thing is exposed",
            ["import-race/self-replacing"],
        ),
        (a_result(), Verdict.PASS, "Thing is the same in what was there before", []),
        (a_result(replaced=()), Verdict.PASS, "does not replace itself", []),
        (a_result(loaded_before=True), Verdict.PASS, "is loaded at every start", []),
        (
            a_result(immune=True),
            Verdict.PASS,
            "looks again after waiting",
            [],
        ),
        (
            a_result(exposed=None, error="ModuleNotFoundError: lazy"),
            Verdict.VOID,
            "cannot be imported, so nothing is known: ModuleNotFoundError",
            [],
        ),
    ],
)
def test_each_answer_has_its_verdict_reason_and_finding(
    result: ImportProbeFacts, verdict: Verdict, part: str, rules: list[str]
) -> None:
    outcome = probe_outcome(result)

    assert outcome.verdict is verdict
    assert part in outcome.summary
    assert [finding.rule for finding in outcome.findings] == rules


def test_the_rule_to_preload_is_ready_to_paste() -> None:
    outcome = probe_outcome(a_result(exposed=True, rule="threading=lazy:Thing"))

    assert isinstance(outcome.facts, ImportProbeFacts)
    assert outcome.facts.rule == "threading=lazy:Thing"
    assert "--preload threading=lazy:Thing -- " in (outcome.findings[0].remedy or "")


def test_a_rule_that_was_not_seen_to_win_is_not_offered() -> None:
    outcome = probe_outcome(a_result(exposed=True))

    (finding,) = outcome.findings
    assert finding.remedy is not None
    assert "no preload rule with that trigger can fire" in finding.remedy
    assert "--preload" not in finding.remedy

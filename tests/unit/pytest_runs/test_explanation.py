# SPDX-License-Identifier: Apache-2.0
"""What a finding says of an explanation."""

import pytest

from ci_doctor.model.outcome import RemedyKind
from ci_doctor.pytest_runs.explanation import (
    MEANINGS,
    UNSEARCHED,
    Conclusion,
    Explanation,
    FlakyKind,
    explained_by,
    explained_finding,
)
from ci_doctor.pytest_runs.trial import FlakyTrial

CAUSE = FlakyTrial(target="t", before=("p",))
CONTROL = FlakyTrial(target="t")


def explained(**fields: object) -> Explanation:
    return explained_by(
        Conclusion(**fields),  # type: ignore[arg-type]
        [],
        8.0,
        lambda trial: " ".join(("pytest", *trial.before, trial.target)),
    )


def named(kind: FlakyKind, culprit: str = "p") -> Explanation:
    return explained(kind=kind, culprit=culprit, left=("X was 1",), cause=CAUSE, control=CONTROL)


@pytest.mark.parametrize("kind", FlakyKind)
def test_each_kind_has_a_sentence_a_command_and_a_mend(kind: FlakyKind) -> None:
    finding = explained_finding("t", named(kind))

    assert finding.summary.startswith(f"t: {kind}: it ")
    assert (finding.remedy, finding.remedy_kind) == ("pytest p t", RemedyKind.COMMAND)
    excerpts = [each.excerpt for each in finding.evidence]
    assert f"mend: {MEANINGS[kind].mend}" in excerpts
    assert "X was 1" in excerpts
    word = "fails" if kind is FlakyKind.BRITTLE else "passes"
    assert f"it {word} by: pytest t" in excerpts


@pytest.mark.parametrize("is_searched", [True, False])
def test_a_finding_says_if_the_time_was_over_before_the_item_was_known(is_searched: bool) -> None:
    found = explained(
        kind=FlakyKind.STATE, culprit="p", cause=CAUSE, control=CONTROL, is_searched=is_searched
    )

    excerpts = [each.excerpt for each in explained_finding("t", found).evidence]

    assert (UNSEARCHED in excerpts) is not is_searched


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"plain_runs": 59}, "excludes a failure rate above 5.0%"),
        (
            {"plain_runs": 50, "plain_failures": 10},
            "10 of 50 runs alone, a rate from 10.0% to 33.7%",
        ),
        ({"plain_runs": 5, "plain_failures": 5}, "failed in all of 5 runs alone"),
        ({}, "no condition decides how it ends; no time was left"),
        ({"is_searched": False}, "the time was over before all conditions were tried"),
        ({"reason": "it was not collected"}, "not explained: it was not collected"),
    ],
)
def test_without_a_kind_the_rate_that_is_excluded_is_named(
    fields: dict[str, object], text: str
) -> None:
    finding = explained_finding("t", explained(**fields))

    assert text in finding.summary
    assert finding.remedy is None


def test_the_facts_hold_both_commands_and_the_runs() -> None:
    facts = named(FlakyKind.STATE)

    assert (facts.reproduce, facts.control) == ("pytest p t", "pytest t")
    assert (facts.kind, facts.culprit, facts.duration_s) == ("state", "p", 8.0)

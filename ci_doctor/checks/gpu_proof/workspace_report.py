# SPDX-License-Identifier: Apache-2.0
"""Pure. What is said of `CUBLAS_WORKSPACE_CONFIG`: the comparison, its risk, and what it leaves open."""

from typing import Final

from ci_doctor.checks.check import CheckResult, problem
from ci_doctor.checks.gpu_proof.fisher import equal_starts_probability, highest_missed_rate
from ci_doctor.checks.gpu_proof.rules import (
    PRODUCTS_VARY,
    WORKSPACE_CHANGES_RESULT,
    WORKSPACE_HARMFUL,
    WORKSPACE_NEEDED,
    WORKSPACE_WITHOUT_EFFECT,
)
from ci_doctor.checks.gpu_proof.workspace_judgement import (
    ALPHA,
    LEAST_STARTS,
    Arms,
    Effect,
    WorkspaceComparison,
    compare,
)
from ci_doctor.model.finding import Evidence, NextStep, ShellCommand
from ci_doctor.model.rule import Rule
from ci_doctor.model.table import Scalar
from ci_doctor.render.formatting import amount, percent, probability

VARIABLE: Final = "CUBLAS_WORKSPACE_CONFIG"
VALUE: Final = ":4096:8"
_EXPORT: Final = ShellCommand(f"export {VARIABLE}={VALUE}")

_RULES: Final = {
    Effect.NONE_SEEN: WORKSPACE_WITHOUT_EFFECT,
    Effect.CHANGES_RESULT: WORKSPACE_CHANGES_RESULT,
    Effect.STEADIES: WORKSPACE_NEEDED,
    Effect.UNSTEADIES: WORKSPACE_HARMFUL,
    Effect.BOTH_VARY: PRODUCTS_VARY,
}


def report(label: str, arms: Arms, *, looks: int, failures: tuple[str, ...] = ()) -> CheckResult:
    """What the starts on the GPU `label` say; `looks` is how often they were looked at, at most.

    `failures` are starts that gave no answer, in words.
    """
    reason = _unusable(arms, failures)
    if reason is not None:
        return CheckResult(summary=f"{label}: {reason}", unknown=f"{label}: {reason}")
    comparison = compare(arms)
    words = _words(label, arms, comparison)
    fault = problem(
        _rule(comparison, looks),
        words,
        evidence=_evidence(arms, comparison, looks),
        remedy=_remedy(comparison, looks),
    )
    # Starts without an answer are missing from the figures, so the whole is not known.
    unknown = None
    if failures:
        unknown = f"{label}: {amount(len(failures), 'start')} gave no answer: {failures[0]}"
    return CheckResult(
        summary=f"{label}: {_counts(arms, comparison)}",
        problems=(fault,),
        unknown=unknown,
        figures=_figures(arms, comparison),
    )


def _unusable(arms: Arms, failures: tuple[str, ...]) -> str | None:
    """Why these starts say nothing, as a clause."""
    if min(len(arms.without), len(arms.with_it)) < LEAST_STARTS:
        reason = failures[0] if failures else "the time was used up"
        return f"fewer than {LEAST_STARTS} starts of each kind gave an answer: {reason}"
    if len({frozenset(start.cases) for start in arms.both}) > 1:
        reasons = [reason for start in arms.both for reason in start.skipped.values()]
        return f"not every start could compute the same products: {reasons[0]}"
    if len({start.inputs for start in arms.both}) > 1:
        return "the starts did not compute with the same operands, so their results say nothing"
    return None


def _is_significant(comparison: WorkspaceComparison, looks: int) -> bool:
    return comparison.p <= ALPHA / looks


def _rule(comparison: WorkspaceComparison, looks: int) -> Rule:
    """That the arms differ may be chance: then it is only known that products vary."""
    if comparison.effect is not Effect.NONE_SEEN and not _is_significant(comparison, looks):
        return PRODUCTS_VARY
    return _RULES[comparison.effect]


def _remedy(comparison: WorkspaceComparison, looks: int) -> NextStep | None:
    if _rule(comparison, looks) is WORKSPACE_NEEDED:
        return _EXPORT
    return None


def _words(label: str, arms: Arms, comparison: WorkspaceComparison) -> str:
    total = len(arms.both)
    if comparison.effect is Effect.NONE_SEEN:
        return (
            f"{label}: matrix products had the same bytes in all {total} starts, with {VARIABLE} "
            "and without: it changes nothing here for these products"
        )
    return (
        f"{label}: {comparison.effect.value}: {_counts(arms, comparison)} "
        f"(p = {probability(comparison.p)})"
    )


def _counts(arms: Arms, comparison: WorkspaceComparison) -> str:
    without = f"{amount(comparison.digests_without, 'result')} over {len(arms.without)} starts"
    with_it = f"{amount(comparison.digests_with, 'result')} over {len(arms.with_it)}"
    return f"without {VARIABLE} {without}, with it {with_it}"


def _evidence(arms: Arms, comparison: WorkspaceComparison, looks: int) -> tuple[Evidence, ...]:
    lines = [_risk(arms, comparison, looks)]
    if comparison.varying:
        lines.append(f"the bytes vary of: {', '.join(comparison.varying)}")
    skipped = arms.without[0].skipped
    if skipped:
        lines.append(f"not computed here: {', '.join(skipped)} ({next(iter(skipped.values()))})")
    lines.append(
        "looked at: products of torch with one dtype and on two streams; not at attention, Triton, "
        "collectives, or batches that change their size"
    )
    return (Evidence(excerpt="\n".join(lines)),)


def _risk(arms: Arms, comparison: WorkspaceComparison, looks: int) -> str:
    """How far chance can have made this."""
    if comparison.effect is Effect.NONE_SEEN:
        missed = highest_missed_rate(len(arms.without))
        # Of a few starts it is more than the 5 % that the rate was sought for.
        risk = max(0.05, round(_missed(arms, missed), 3))
        return (
            f"{len(arms.without)} equal starts without the variable miss a second result that "
            f"appears in {percent(round(missed, 3))} of starts with a probability of "
            f"{percent(risk)}, and one that appears in 10 % with "
            f"{percent(round(_missed(arms, 0.1), 3))}"
        )
    if _is_significant(comparison, looks):
        return (
            f"chance makes such a difference in at most {percent(ALPHA)} of proofs "
            f"(Fisher's exact test, {percent(ALPHA / looks)} for each of {looks} looks)"
        )
    return (
        f"chance alone can make this difference between the arms: p = {probability(comparison.p)}, "
        f"and {probability(ALPHA / looks)} would be needed"
    )


def _missed(arms: Arms, rate: float) -> float:
    return equal_starts_probability(len(arms.without), rate)


def _figures(arms: Arms, comparison: WorkspaceComparison) -> dict[str, Scalar]:
    return {
        "starts_without": len(arms.without),
        "starts_with": len(arms.with_it),
        "results_without": comparison.digests_without,
        "results_with": comparison.digests_with,
        "p": comparison.p,
        "missed_if_in_10_percent_of_starts": _missed(arms, 0.1),
        "missed_if_in_30_percent_of_starts": _missed(arms, 0.3),
    }

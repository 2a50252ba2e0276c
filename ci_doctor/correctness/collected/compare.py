# SPDX-License-Identifier: Apache-2.0
"""Reads samples of another program and compares them: the library entry of `compare`."""

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.collected.cases import cases
from ci_doctor.correctness.collected.differences import collected_differences
from ci_doctor.correctness.collected.figures import facts
from ci_doctor.correctness.collected.findings import findings, void_finding
from ci_doctor.correctness.collected.first_looks import first_looks
from ci_doctor.correctness.collected.formats import named
from ci_doctor.correctness.collected.judge import judge
from ci_doctor.correctness.collected.levels import collected_levels
from ci_doctor.correctness.collected.recorded_order import drawn_rules, recorded_order
from ci_doctor.correctness.collected.reread import Collected, reread
from ci_doctor.correctness.collected.sources import NoEvidenceError, check, find, sources
from ci_doctor.correctness.collected.survey import survey
from ci_doctor.correctness.collected.tables import tables
from ci_doctor.correctness.report.levels import level_tables
from ci_doctor.correctness.settings import Arm, Comparison, Rules, StartOrder
from ci_doctor.model.facts import Facts
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.verdict import Verdict


class CompareRequest(Struct, frozen=True, kw_only=True):
    """What to compare: each side is a file, or a directory with a file for each start.

    `form` is the format of all files, a name that `--format` takes; None recognises each file by
    its content. `alpha` is the accepted probability of a false regression.
    `exchangeable` asserts that the order of the starts plays no part. `comparison` is the gate's. Without `details` the
    outcome has no facts and no cases: a caller that writes no report saves the time.
    """

    baseline: str
    candidate: str
    form: str | None = None
    alpha: float = 0.025
    exchangeable: bool = False
    comparison: Comparison = Comparison()
    details: bool = True


def compare(request: CompareRequest) -> Outcome:
    """The verdict over both sides. It is `void` if the files prove nothing.

    Raises UsageError if the sides cannot be compared, InfraError if a file can no longer be read.
    """
    try:
        collected = _collected(request)
    except NoEvidenceError as error:
        return Outcome(
            verdict=Verdict.VOID, summary=str(error), findings=(void_finding(str(error)),)
        )
    collected, rules = _in_order(collected, request)
    decision = judge(collected, rules)
    levels = collected_levels(collected, decision, rules)
    differences = collected_differences(collected, decision)
    return Outcome(
        verdict=decision.verdict,
        summary=decision.reason,
        findings=(
            *findings(collected, decision, differences),
            *first_looks(collected.survey.starts),
        ),
        tables=(*tables(collected, decision), *level_tables(levels)),
        facts=facts(collected, decision, differences, levels) if request.details else Facts(),
        cases=cases(collected, decision) if request.details else (),
    )


def _in_order(collected: Collected, request: CompareRequest) -> tuple[Collected, Rules]:
    """The starts in order of time, if that is recorded, and the rules by what is known of the order."""
    unknown = Rules(alpha=request.alpha, order=StartOrder.UNKNOWN)
    if request.exchangeable:
        return collected, replace(unknown, order=StartOrder.EXCHANGEABLE)
    # Equal answers need no order.
    order = recorded_order(collected.survey) if collected.survey.odd else None
    if order is None:
        return collected, unknown
    in_time = replace(collected, in_time=tuple(collected.starts[index] for index in order))
    drawn = drawn_rules(collected.survey, order, request.alpha)
    return in_time, drawn or replace(unknown, order=StartOrder.RECORDED)


def _collected(request: CompareRequest) -> Collected:
    form = named(request.form) if request.form else None
    # A missing file is an error of usage, even if the other side is empty. So both are looked for
    # before one of them is read.
    for path in (request.baseline, request.candidate):
        find(path)
    baseline = sources(Arm.BASELINE, request.baseline, form)
    candidate = sources(Arm.CANDIDATE, request.candidate, form)
    check(baseline, candidate)
    return reread(survey(baseline, candidate), request.comparison)

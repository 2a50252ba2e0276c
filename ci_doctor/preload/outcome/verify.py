# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: `preload verify`, from a request to an outcome."""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ci_doctor.errors import CiDoctorError
from ci_doctor.model.facts.preload import CheckFact, VerifyFacts
from ci_doctor.model.outcome import Case, CaseOutcome, Failure, Outcome
from ci_doctor.model.table import Table, row
from ci_doctor.model.verdict import Verdict
from ci_doctor.preload.checks import Check, CheckOutcome, findings
from ci_doctor.preload.checks import verdict as verdict_of
from ci_doctor.preload.inspection import inspect_interpreter
from ci_doctor.preload.interpreters import Interpreters, find_interpreters
from ci_doctor.preload.outcome.refused import refusal_table, refused_fact, worst
from ci_doctor.preload.result import Refused
from ci_doctor.preload.verify import RUNS
from ci_doctor.preload.verify import verify as verify_shim

_CASES: Final = {
    CheckOutcome.PASSED: CaseOutcome.PASSED,
    CheckOutcome.NOT_NEEDED: CaseOutcome.PASSED,
    CheckOutcome.FAILED: CaseOutcome.FAILED,
    CheckOutcome.VOID: CaseOutcome.ERROR,
}


def verify(
    interpreters: Interpreters,
    *,
    runs: int = RUNS,
    tell: Callable[[str], None] = lambda _: None,
    environ: Mapping[str, str] = os.environ,
) -> Outcome:
    """Prove for each interpreter that its shim is armed, cheap, and wins the race of each rule.

    Each race is played `runs` times without the shim and as often with it; `tell` gets the name of
    each step before it begins. Raises UsageError if there is no interpreter.
    """
    checks: dict[str, tuple[Check, ...]] = {}
    refused: list[Refused] = []
    for python in find_interpreters(interpreters, environ):
        if isinstance(python, Refused):
            refused.append(python)
            continue
        try:
            checks[str(python)] = verify_shim(inspect_interpreter(python), runs=runs, tell=tell)
        except CiDoctorError as error:
            refused.append(Refused(python=python, error=error))
    return _outcome(checks, refused)


def _outcome(by_python: Mapping[str, Sequence[Check]], refused: Sequence[Refused]) -> Outcome:
    checks: list[Check] = []
    facts: list[CheckFact] = []
    cases: list[Case] = []
    tables: list[Table] = []
    for python, each in by_python.items():
        checks += each
        facts += [_fact(python, check) for check in each]
        cases += [_case(python, check) for check in each]
        tables.append(_table(python, each))
    tables += [refusal_table(result) for result in refused]
    verdict: Verdict | None = verdict_of(checks)
    error: Failure | None = None
    if refused:
        refused_verdict, error = worst(refused)
        # A shim that failed is the worse news.
        if verdict is not Verdict.FAILED:
            verdict = refused_verdict
    return Outcome(
        verdict=verdict,
        error=error,
        summary=_summary(checks),
        findings=findings(checks),
        tables=tuple(tables),
        facts=VerifyFacts(
            checks=tuple(facts), refused=tuple(refused_fact(result) for result in refused)
        ),
        cases=tuple(cases),
    )


def _summary(checks: Sequence[Check]) -> str:
    """What the checks prove together, the worst first."""
    if not checks:
        return "no interpreter could be examined"
    counts = Counter(check.outcome for check in checks)
    if counts[CheckOutcome.FAILED]:
        return f"{counts[CheckOutcome.FAILED]} of {len(checks)} checks of the shim failed"
    if counts[CheckOutcome.VOID]:
        return f"{counts[CheckOutcome.VOID]} of {len(checks)} checks of the shim prove nothing"
    if not counts[CheckOutcome.NOT_NEEDED]:
        return "the race is lost without the shim, and won with it"
    if any(_wins_a_race(check) for check in checks):
        return "the shim works, and part of it is no longer needed"
    return "the shim works, and it is no longer needed"


def _wins_a_race(check: Check) -> bool:
    return check.name.startswith("race") and check.outcome is CheckOutcome.PASSED


def _table(python: str, checks: Sequence[Check]) -> Table:
    rows = []
    for check in checks:
        rows.append(row(str(check.outcome), check.sentence))
        if check.outcome is CheckOutcome.PASSED and check.evidence:
            rows.append(row("without it", check.evidence))
    return Table(title=python, rows=tuple(rows))


def _fact(python: str, check: Check) -> CheckFact:
    return CheckFact(
        python=python,
        name=check.name,
        outcome=check.outcome.value,
        sentence=check.sentence,
        evidence=check.evidence,
    )


def _case(python: str, check: Check) -> Case:
    passed = check.outcome is CheckOutcome.PASSED
    return Case(
        group=f"preload verify {python}",
        name=check.name,
        outcome=_CASES[check.outcome],
        message=None if passed else check.sentence,
        detail=None if passed else check.evidence or None,
    )

# SPDX-License-Identifier: Apache-2.0
"""Reads git and a history: what earlier runs show of the tests of this one."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TypeVar

from msgspec.structs import replace

from ci_doctor.errors import CiDoctorError
from ci_doctor.model.verdict import Verdict
from ci_doctor.pytest_runs.ancestors import base_and_ancestors
from ci_doctor.pytest_runs.attempt import PytestOutcome, RunKind
from ci_doctor.pytest_runs.baseline_runs import NewTests
from ci_doctor.pytest_runs.judging import TestJudgement
from ci_doctor.pytest_runs.past import PastProof, PastReader, proof_of
from ci_doctor.pytest_runs.quarantine import QuarantineEntry
from ci_doctor.pytest_runs.request import PytestRequest

T = TypeVar("T")
_NOW = (RunKind.SUITE, RunKind.REST, RunKind.ALONE, RunKind.ORDER)
_NO_COMMIT = "git knows no commit before the change; a shallow clone lacks it"


class Remembered:
    """Asks the history of `request`. problem: why a question got no answer; None if all did."""

    def __init__(self, request: PytestRequest) -> None:
        self.problem: str | None = None
        self._request = request
        self._reader: PastReader | None = request.past

    @cached_property
    def _commits(self) -> tuple[str, ...]:
        request = self._request
        return base_and_ancestors(request.directory, request.baseline, request.environ)

    def new_tests(self, collected: Sequence[str]) -> NewTests:
        """Those of `collected` that have not run at the base or before it."""
        known = None
        if self._reader is not None and self._has_commits():
            try:
                known = self._reader.known(self._commits, collected)
            except CiDoctorError as error:
                self._give_up(error)
        if known is None:
            return NewTests(problem=self.problem or "no history is configured")
        if 2 * len(known) < len(collected):
            text = f"the history knows {len(known)} of {len(collected)} tests at the base"
            return NewTests(problem=text)
        return NewTests(names=tuple(name for name in collected if name not in known))

    def judged(self, judged: Sequence[TestJudgement]) -> tuple[TestJudgement, ...]:
        """`judged`, with what the history says of tests that failed each time and did not run at the base."""
        failures = {each.test: count for each in judged if (count := _failures(each))}
        if not failures or self._reader is None or not self._has_commits():
            return tuple(judged)
        try:
            jobs = self._reader.jobs(self._commits, failures)
        except CiDoctorError as error:
            self._give_up(error)
            return tuple(judged)
        proofs = {test: proof_of(jobs.get(test, ()), count) for test, count in failures.items()}
        return tuple(with_proof(each, proofs.get(each.test)) for each in judged)

    def long_green(
        self, held: Mapping[str, QuarantineEntry], judged: Sequence[TestJudgement]
    ) -> dict[str, str]:
        """By the name in the entry, how long the tests of an entry have been green."""
        tests: dict[str, list[str]] = {}
        for test, entry in held.items():
            tests.setdefault(entry.test, []).append(test)
        red = {each.test for each in judged if each.verdict is not Verdict.PASS}
        clauses = {}
        for name, matching in tests.items():
            if self._reader is None or not red.isdisjoint(matching):
                continue
            try:
                clause = self._reader.long_green(matching)
            except CiDoctorError as error:
                self._give_up(error)
                break
            if clause is not None:
                clauses[name] = clause
        return clauses

    def _has_commits(self) -> bool:
        if not self._commits:
            self.problem = _NO_COMMIT
        return bool(self._commits)

    def _give_up(self, error: CiDoctorError) -> None:
        """Ask no more: a database that does not answer is waited for once."""
        self.problem = error.message
        self._reader = None


def with_proof(judged: TestJudgement, proof: PastProof | None) -> TestJudgement:
    """The judgement with what the history shows. Pure."""
    if proof is None:
        return judged
    if not proof.is_regression:
        return replace(judged, past=proof.text)
    return replace(
        judged,
        verdict=Verdict.REGRESSION,
        why=f"{judged.why}; by the history {proof.text}",
        past=proof.text,
    )


def _failures(judged: TestJudgement) -> int:
    """How often a test failed of which the history may show more; 0 for all others. Pure.

    One that passes alone is none: earlier runs had another order.
    """
    if judged.verdict is not Verdict.FAILED or judged.passes_at_base is not None:
        return 0
    attempts = judged.of(*_NOW)
    if any(attempt.is_green for attempt in attempts):
        return 0
    return sum(attempt.outcome is not PytestOutcome.LOST for attempt in attempts)

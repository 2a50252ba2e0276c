# SPDX-License-Identifier: Apache-2.0
"""Acts on GPUs: computes matrix products in many starts, with `CUBLAS_WORKSPACE_CONFIG` and without."""

from typing import Final

from msgspec.structs import replace

from ci_doctor.checks.check import CheckResult, UndeterminedError
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu_proof.cards import ProofCard, working_cards, working_torch
from ci_doctor.checks.gpu_proof.program import ask_torch, values_of
from ci_doctor.checks.gpu_proof.several import combined
from ci_doctor.checks.gpu_proof.turn import proof
from ci_doctor.checks.gpu_proof.workspace_judgement import Arms, ProductStart, is_decided
from ci_doctor.checks.gpu_proof.workspace_report import VALUE, VARIABLE, report
from ci_doctor.system import clock

STARTS: Final = 10  # of each arm
_BUDGET_S: Final = 300.0
_START_LIMIT_S: Final = 90.0
# One that fails may be an accident; a program that cannot work fails each time.
_MOST_FAILURES: Final = 3


def _measure(context: CheckContext) -> CheckResult:
    deadline = clock.now() + _BUDGET_S
    return combined([_card(context, card, deadline) for card in _one_of_each(context)])


def _one_of_each(context: CheckContext) -> list[ProofCard]:
    """One GPU of each model: cuBLAS chooses its kernels by the model."""
    chosen: dict[str, ProofCard] = {}
    for card in context.shared(working_cards):
        chosen.setdefault(card.device.name, card)
    return list(chosen.values())


def _card(context: CheckContext, card: ProofCard, deadline: float) -> CheckResult:
    arms = Arms()
    failures: list[str] = []
    # Pair by pair, and the order turned round each time: what a start leaves to the next, such as a
    # warm GPU, is no effect of the variable.
    for pair in range(STARTS):
        for is_set in (False, True) if pair % 2 == 0 else (True, False):
            if clock.now() >= deadline or len(failures) >= _MOST_FAILURES:
                return report(card.label, arms, looks=STARTS, failures=tuple(failures))
            try:
                start = _start(context, card, is_set=is_set)
            except UndeterminedError as error:
                failures.append(str(error))
                continue
            arms = _with_start(arms, start, is_set=is_set)
        if is_decided(arms, STARTS):
            break
    return report(card.label, arms, looks=STARTS, failures=tuple(failures))


def _start(context: CheckContext, card: ProofCard, *, is_set: bool) -> ProductStart:
    environ = {name: value for name, value in context.environ.items() if name != VARIABLE}
    if is_set:
        environ[VARIABLE] = VALUE
    answer = ask_torch(
        context,
        working_torch(context).python,
        "products",
        {"device": card.device.index},
        limit_s=_START_LIMIT_S,
        environ=environ,
    )
    return values_of(answer, ProductStart, "a start")


def _with_start(arms: Arms, start: ProductStart, *, is_set: bool) -> Arms:
    if is_set:
        return replace(arms, with_it=(*arms.with_it, start))
    return replace(arms, without=(*arms.without, start))


CHECK = proof("gpu_proof/workspace", "effect of CUBLAS_WORKSPACE_CONFIG", _measure)

# SPDX-License-Identifier: Apache-2.0
"""Acts on GPUs: takes memory of each in a process that is killed, and waits until it is free again."""

import time
from typing import Final

from msgspec import Struct

from ci_doctor.checks.check import CheckResult, UndeterminedError
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu_proof.cards import (
    ProofCard,
    used_memory,
    working_cards,
    working_torch,
)
from ci_doctor.checks.gpu_proof.driver import parse_rows, query, smi_words
from ci_doctor.checks.gpu_proof.memory_back_judgement import (
    Holders,
    MemoryReadings,
    UsedMemory,
    holders_of,
    is_back,
    judge_memory_back,
)
from ci_doctor.checks.gpu_proof.program import ask_torch, values_of
from ci_doctor.checks.gpu_proof.several import combined
from ci_doctor.checks.gpu_proof.turn import proof
from ci_doctor.system import clock

_LIMIT_S: Final = 120.0
# As long as is waited for the memory.
_PATIENCE_S: Final = 60.0
_BETWEEN_S: Final = 0.05
_SIZE: Final = 4 * 2**30
_HOLDERS: Final = ("gpu_uuid", "pid", "used_memory")


class _Held(Struct, frozen=True, kw_only=True):
    """What programs/hold.py prints before it dies. `killed_at` is CLOCK_MONOTONIC, as clock.now()."""

    held: int
    free_before: int
    free_after: int
    applications: tuple[str, ...] | None
    killed_at: float


def _measure(context: CheckContext) -> CheckResult:
    return combined([_card(context, card) for card in context.shared(working_cards)])


def _card(context: CheckContext, card: ProofCard) -> CheckResult:
    try:
        readings = _readings(context, card)
    except UndeterminedError as error:
        return CheckResult(summary=str(error), unknown=str(error))
    return judge_memory_back(readings)


def _readings(context: CheckContext, card: ProofCard) -> MemoryReadings:
    python = working_torch(context).python
    used_before = used_memory(context, card)
    holders_before = _holders(context, card)
    request = {
        "device": card.device.index,
        "size": _SIZE,
        "applications": smi_words(context, "compute-apps", _HOLDERS),
    }
    answer = ask_torch(context, python, "hold", request, limit_s=_LIMIT_S)
    held = values_of(answer, _Held, card.label)
    readings = MemoryReadings(
        label=card.label,
        used_before=used_before,
        held=held.held,
        after=(),
        holders_before=holders_before,
        holders_during=_held_by(card, held.applications),
        holders_after=None,
    )
    after = _wait(context, card, readings, held.killed_at)
    return MemoryReadings(
        label=readings.label,
        used_before=used_before,
        held=held.held,
        after=after,
        holders_before=holders_before,
        holders_during=readings.holders_during,
        holders_after=_holders(context, card),
    )


def _wait(
    context: CheckContext, card: ProofCard, readings: MemoryReadings, killed_at: float
) -> tuple[UsedMemory, ...]:
    """Read until the memory is back, or the patience is at its end."""
    after: list[UsedMemory] = []
    while clock.now() - killed_at < _PATIENCE_S:
        asked_s = clock.now() - killed_at
        used = used_memory(context, card)
        answered_s = clock.now() - killed_at
        after.append(UsedMemory(asked_s=asked_s, answered_s=answered_s, used=used))
        if is_back(readings, after[-1]):
            break
        time.sleep(_BETWEEN_S)
    return tuple(after)


def _holders(context: CheckContext, card: ProofCard) -> Holders | None:
    try:
        rows = query(context, "compute-apps", _HOLDERS)
    except UndeterminedError:
        return None
    return holders_of(rows, card.uuid)


def _held_by(card: ProofCard, lines: tuple[str, ...] | None) -> Holders | None:
    if lines is None:
        return None
    return holders_of(parse_rows("\n".join(lines), _HOLDERS), card.uuid)


CHECK = proof("gpu_proof/memory-back", "memory of a killed process becomes free", _measure)

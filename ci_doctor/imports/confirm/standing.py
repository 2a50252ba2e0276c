# SPDX-License-Identifier: Apache-2.0
"""What is known of each hazard, once the command has run without and with delays. Pure."""

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from ci_doctor.imports.baseline import NO_BASELINE, Baseline
from ci_doctor.imports.confirm.delays import RaceCandidate
from ci_doctor.imports.confirm.run import Confirmation


class Standing(StrEnum):
    """What is known of a hazard at the end.

    FIRED: it did harm in the recorded run. CONFIRMED: it did harm in a run with a delay. POSSIBLE:
    no runs with a delay were requested. OPEN: they could not decide it. HARMLESS: a thread was
    handed an incomplete module, and missed nothing in it. SAFE: no delay made it happen. KNOWN: the
    baseline accepts it, whatever it did.
    """

    FIRED = "fired"
    CONFIRMED = "confirmed"
    POSSIBLE = "possible"
    OPEN = "open"
    HARMLESS = "no harm seen"
    SAFE = "not confirmed"
    KNOWN = "known"


class JudgedHazard(Struct, frozen=True, kw_only=True):
    """A hazard, at all its places, and what is known of it.

    confirmation: None if no run was made for it.
    """

    candidate: RaceCandidate
    standing: Standing
    confirmation: Confirmation | None = None


def judge(
    candidates: Sequence[RaceCandidate],
    confirmations: Sequence[Confirmation],
    *,
    confirming: bool,
    command_failed: bool = False,
    baseline: Baseline = NO_BASELINE,
) -> tuple[JudgedHazard, ...]:
    """What is known of each of `candidates`; `confirmations` are of some of them.

    command_failed: of the recorded run. What was handed out in it may be the reason, so it counts
    as harm.
    """
    judged = []
    for candidate in candidates:
        confirmation = _confirmation_of(candidate, confirmations)
        if baseline.entry_of(candidate.worst) is not None:
            standing = Standing.KNOWN
        elif candidate.has_fired or (command_failed and candidate.was_handed_out):
            standing = Standing.FIRED
        else:
            standing = _standing(candidate, confirmation, confirming=confirming)
        judged.append(
            JudgedHazard(candidate=candidate, standing=standing, confirmation=confirmation)
        )
    return tuple(judged)


def _confirmation_of(
    candidate: RaceCandidate, confirmations: Sequence[Confirmation]
) -> Confirmation | None:
    for confirmation in confirmations:
        if confirmation.candidate is candidate:
            return confirmation
    return None


def _standing(
    candidate: RaceCandidate, confirmation: Confirmation | None, *, confirming: bool
) -> Standing:
    if confirmation is None:
        # Beyond `candidates`, or a signal came before its turn: runs were wanted, and not made.
        if confirming:
            return Standing.OPEN
        return Standing.POSSIBLE
    if confirmation.fired_in is not None:
        return Standing.CONFIRMED
    if not confirmation.is_settled:
        return Standing.OPEN
    if candidate.was_handed_out or confirmation.handed_out_in:
        return Standing.HARMLESS
    return Standing.SAFE

# SPDX-License-Identifier: Apache-2.0
"""A promise that a restart must not break. Pure."""

from enum import StrEnum

from msgspec import Struct

from ci_doctor.model.finding import Evidence


class State(StrEnum):
    """What became of a promise; one that is `untested` was not asked for, or the check did not get so far."""

    KEPT = "kept"
    BROKEN = "broken"
    UNTESTED = "untested"


class Terms(Struct, frozen=True, kw_only=True):
    """What was asked: the service that is killed and how, limits in seconds, and the least throughput (0: any)."""

    kill: str
    signal: str
    request_timeout_s: float
    release_timeout_s: float
    recovery_timeout_s: float
    throughput: float
    same_outputs: bool


class Promise(Struct, frozen=True, kw_only=True):
    """One thing that a restart must not break. `message` says how it was kept, broken, or why it was not tested."""

    name: str
    rule: str
    state: State
    message: str
    evidence: tuple[Evidence, ...] = ()
    remedy: str | None = None


def promise(
    name: str, rule: str, state: State, message: str, *evidence: Evidence, remedy: str | None = None
) -> Promise:
    """A promise of the family `restart-check`."""
    return Promise(
        name=name,
        rule=f"restart-check/{rule}",
        state=state,
        message=message,
        evidence=evidence,
        remedy=remedy,
    )


def untested(name: str, rule: str, why: str) -> Promise:
    """One that was not tested, and why."""
    return promise(name, rule, State.UNTESTED, why)


def seconds(length: float) -> str:
    """`1.2 s`, `40 ms`."""
    return f"{length:.1f} s" if length >= 0.1 else f"{length * 1000:.0f} ms"

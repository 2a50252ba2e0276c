# SPDX-License-Identifier: Apache-2.0
"""A promise that a restart must not break. Pure."""

from enum import StrEnum

from msgspec import Struct

from ci_doctor.model.finding import Evidence, Finding
from ci_doctor.model.rule import Rule


class State(StrEnum):
    """What became of a promise.

    `untested`: it was not wanted, or the check did not get so far.
    """

    KEPT = "kept"
    BROKEN = "broken"
    UNTESTED = "untested"


class Terms(Struct, frozen=True, kw_only=True):
    """What is promised: which service is killed and how, limits in seconds, the least throughput.

    A `throughput` of 0 promises none. `control_starts` are wanted before the kill. `acknowledged` writes are wanted before it,
    0 without a load that writes.
    """

    kill: str
    signal: str
    request_timeout_s: float
    release_timeout_s: float
    recovery_timeout_s: float
    throughput: float
    same_outputs: bool
    control_starts: int = 0
    acknowledged: int = 0


class Promise(Struct, frozen=True, kw_only=True):
    """One thing that a restart must not break, named `name` to people.

    `rule` is what a broken one is a finding of. `message` tells how it was kept or broken, or why
    it was not tested.
    """

    name: str
    rule: Rule
    state: State = State.UNTESTED
    message: str = ""
    evidence: tuple[Evidence, ...] = ()
    remedy: str | None = None

    @property
    def key(self) -> str:
        """Its rule without the family: `hung-requests`."""
        return self.rule.id.partition("/")[2]

    def finding(self) -> Finding:
        """The finding of a broken one."""
        return self.rule.finding(self.message, evidence=self.evidence, remedy=self.remedy)


def kept(name: str, rule: Rule, message: str) -> Promise:
    """A promise that was kept."""
    return Promise(name=name, rule=rule, state=State.KEPT, message=message)


def untested(name: str, rule: Rule, why: str) -> Promise:
    """A promise that was not tested, and why."""
    return Promise(name=name, rule=rule, state=State.UNTESTED, message=why)


def broken(
    name: str, rule: Rule, message: str, *evidence: Evidence, remedy: str | None = None
) -> Promise:
    """A promise that was broken; `remedy` replaces the rule's own."""
    return Promise(
        name=name,
        rule=rule,
        state=State.BROKEN,
        message=message,
        evidence=evidence,
        remedy=remedy or rule.remedy,
    )

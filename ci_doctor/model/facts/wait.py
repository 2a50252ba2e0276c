# SPDX-License-Identifier: Apache-2.0
"""The facts of `ci-doctor wait`. Pure."""

from ci_doctor.model.facts import Facts
from ci_doctor.model.service import ServiceFailure


class WaitFacts(Facts, frozen=True, kw_only=True):
    """The process, its probe and why it is of no use, if it is not ready.

    `answer` is the last one of the probe that was not good. `waited_s` counts from the start of
    ci-doctor. `received` is the signal that ended the wait.
    """

    pid: int | None
    name: str
    probe: str
    waited_s: float
    answer: str | None = None
    cause: ServiceFailure | None = None
    received: str | None = None

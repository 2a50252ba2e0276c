# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of `ci-doctor doctor`."""

from msgspec import Struct

from ci_doctor.model.facts import Facts
from ci_doctor.model.facts.drift import SinceGreenFacts
from ci_doctor.model.table import Scalar


class DoctorCheckFact(Struct, frozen=True, kw_only=True):
    """How one check ended.

    `status` is `ok`, `warning`, `error` or `unknown`; `unknown` is the reason. `problems` are the
    rules of its findings. `milliseconds` is its duration; None if it missed its deadline.
    """

    id: str
    title: str
    status: str
    summary: str
    unknown: str | None
    problems: tuple[str, ...]
    is_needed: bool
    milliseconds: float | None
    figures: dict[str, Scalar] = {}


class DoctorFacts(Facts, frozen=True, kw_only=True):
    """What was checked.

    `workload` is that of `--for`. `not_run` maps the ids of the checks that make no sense here to
    the reason. `fixed` are the changes that `--fix` has made, in words; `would_fix` those that
    `--dry-run` kept it from; `not_fixed` maps those that failed to the reason. `since_green` is the
    comparison with the last green run, if one was named.
    """

    workload: str | None
    strict: bool
    checks: tuple[DoctorCheckFact, ...]
    not_run: dict[str, str]
    fixed: tuple[str, ...] = ()
    would_fix: tuple[str, ...] = ()
    not_fixed: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it
    since_green: SinceGreenFacts | None = None

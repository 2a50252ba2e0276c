# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of `ci-doctor doctor`."""

from msgspec import Struct

from ci_doctor.model.facts import Facts
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
    the reason. `fixed` are the changes that `--fix` has made, in words.
    """

    workload: str | None
    strict: bool
    checks: tuple[DoctorCheckFact, ...]
    not_run: dict[str, str]
    fixed: tuple[str, ...] = ()

# SPDX-License-Identifier: Apache-2.0
"""The rules that a former verdict had. Pure."""

from msgspec import Struct

from ci_doctor.correctness.settings import Policy


class FormerRules(Struct, frozen=True, kw_only=True):
    """`retries` is the number of all candidate starts, `least_candidates` of them must be clean for `pass`."""

    retries: int = 3
    alpha: float = 0.05
    policy: Policy = Policy.CONTROL
    least_candidates: int = 1

# SPDX-License-Identifier: Apache-2.0
"""Pure. The rules of the area `own`."""

from typing import Final

from ci_doctor.model.rule import Rule

RULES: Final[tuple[Rule, ...]] = ()

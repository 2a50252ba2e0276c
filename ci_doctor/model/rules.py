# SPDX-License-Identifier: Apache-2.0
"""Rules that are not in their rooms yet. Pure."""

from ci_doctor.model.meaning import Meaning
from ci_doctor.model.restart_rules import RESTART_RULES
from ci_doctor.model.service_rules import SERVICE_RULES

RULES: dict[str, Meaning] = {**SERVICE_RULES, **RESTART_RULES}

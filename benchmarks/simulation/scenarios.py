# SPDX-License-Identifier: Apache-2.0
"""The worlds that verdicts are held against, and what is wanted of the verdicts in them."""

from simulation.quiet import QUIET
from simulation.scenario import Scenario
from simulation.worse import WORSE

SCENARIOS: tuple[Scenario, ...] = (*QUIET, *WORSE)

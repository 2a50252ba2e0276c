# SPDX-License-Identifier: Apache-2.0
"""What the report says of why a test is flaky. Pure."""

from msgspec import Struct

from ci_doctor.model.facts.pytest import ExplanationFacts
from ci_doctor.model.finding import Finding
from ci_doctor.pytest_runs.judging import TrialCounts


class ExplainedTest(Struct, frozen=True, kw_only=True):
    """A test by its node id, with its finding and its facts, and what the runs add to its attempts."""

    test: str
    finding: Finding
    facts: ExplanationFacts
    counts: TrialCounts

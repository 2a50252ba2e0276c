# SPDX-License-Identifier: Apache-2.0
"""Pure. What became of an upload -> an outcome, which judges nothing."""

from ci_doctor.model.facts.build_upload import BuildUploadFacts
from ci_doctor.model.outcome import Outcome
from ci_doctor.render.formatting import amount


def summary_of(facts: BuildUploadFacts) -> str:
    """One sentence: how many results were taken, and where they are."""
    where = f": {facts.address}" if facts.address else ""
    return f"Test Engine took {amount(facts.queued, 'result')}{where}"


def outcome_of_upload(facts: BuildUploadFacts) -> Outcome:
    """An upload changes no result, so the verdict is None."""
    return Outcome(verdict=None, summary=summary_of(facts), facts=facts)

# SPDX-License-Identifier: Apache-2.0
"""What an investigation of import races gathered. Pure."""

from collections.abc import Mapping

from msgspec import Struct

from ci_doctor.imports.analyse.hazard import Hazard
from ci_doctor.imports.baseline import NO_BASELINE, Baseline
from ci_doctor.imports.confirm.rule_trial import RuleStanding
from ci_doctor.imports.confirm.run import HeldRun
from ci_doctor.imports.confirm.standing import JudgedHazard, Standing
from ci_doctor.imports.record.recorded import RecordedRun


class Investigation(Struct, frozen=True, kw_only=True):
    """All that was gathered.

    judged: the hazards, the worst first. runs: those with a delay, in their order. spared: hazards
    that an immune interpreter does not have. interpreters: for each executable, whether it is
    exposed to the race of self-replacing modules; None if it did not answer. isolated: why the
    command's own Python does not record. confirming: runs with a delay were requested. is_whole:
    False if a process requested more modules than are compared, so that there may be more hazards.
    baseline: the known races. rules: what is known of each preload rule, by its text.
    """

    recorded: RecordedRun
    judged: tuple[JudgedHazard, ...] = ()
    runs: tuple[HeldRun, ...] = ()
    spared: tuple[Hazard, ...] = ()
    interpreters: Mapping[str, bool | None] = {}
    isolated: str | None = None
    confirming: bool = False
    is_whole: bool = True
    baseline: Baseline = NO_BASELINE
    rules: Mapping[str, RuleStanding] = {}

    @property
    def unused_entries(self) -> tuple[str, ...]:
        """The entries of the baseline whose races did not occur."""
        return self.baseline.unused(judged.candidate.worst for judged in self.judged)

    def having(self, *standings: Standing) -> tuple[JudgedHazard, ...]:
        """The hazards with one of these standings."""
        chosen = [judged for judged in self.judged if judged.standing in standings]
        return tuple(chosen)

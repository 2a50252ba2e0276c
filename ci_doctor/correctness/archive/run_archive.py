# SPDX-License-Identifier: Apache-2.0
"""Acts on the archive: the baseline starts that a run takes from it, and those it adds."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.buildkite.job import is_default_branch_build
from ci_doctor.correctness import rules
from ci_doctor.correctness.archive.archive import Archive, ArchiveMatches, build_of, unfit
from ci_doctor.correctness.evidence.samples import Outputs
from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.settings import ArchiveWrite, Rules
from ci_doctor.correctness.verdict.differences import MANY_BUILDS
from ci_doctor.errors import CiDoctorError
from ci_doctor.identity.identity import Identity
from ci_doctor.model.outcome import Evidence, Finding, Verdict
from ci_doctor.render import formatting
from ci_doctor.store.objects import StoreError

# Verdicts that rest on answers. Green runs alone would make the archive a biased sample.
_VERDICTS_ON_ANSWERS = {
    Verdict.PASS,
    Verdict.FLAKY,
    Verdict.REGRESSION,
    Verdict.NONDETERMINISTIC,
    Verdict.INCONCLUSIVE,
}
_MOST_FILES = 5


class RunArchive(Struct, frozen=True, kw_only=True):
    """The archive as one run uses it: the `matches` for its `identity`, and what it may write."""

    archive: Archive
    identity: Identity
    matches: ArchiveMatches
    write: ArchiveWrite

    def results(self, outputs: Outputs) -> tuple[StartResult, ...]:
        """The archived starts as starts of an experiment; their answers are added to `outputs`."""
        for file in self.matches.starts:
            for digest, place in file.places.items():
                outputs.note(digest, file.path, place)
        return tuple(file.start.result for file in self.matches.starts)

    def notes(self) -> Iterator[str]:
        """What a person should know before the first start."""
        matches = self.matches
        if not matches.starts:
            yield f"no archived baseline of this identity in {self.archive.place} yet"
            return
        count = formatting.amount(len(matches.starts), "archived baseline start")
        builds = formatting.amount(matches.builds, "independent build")
        newest = matches.starts[0].start.build
        yield f"{count} of {builds} found under the same identity; the newest is of {newest}"
        if matches.unknown_builds:
            yield f"{matches.unknown_builds} of them name no build, and count as one build together"
        if matches.unknown:
            facts = ", ".join(matches.unknown)
            yield f"assumed to match, since nobody knows: {facts}"

    def raised(self, rules: Rules, environ: Mapping[str, str]) -> Rules:
        """`rules` for this build: one that may write adds a baseline start of its own.

        Until the archive holds six builds. If each build took the first one's word, it would never
        grow.
        """
        allowed, _ = _may_write(self.write, environ)
        if not allowed:
            return rules
        return replace(rules, archive_builds=max(rules.archive_builds, MANY_BUILDS))

    def findings(self) -> Iterator[Finding]:
        """A warning if files of the archive are unusable."""
        skipped = self.matches.skipped
        if skipped:
            rule = rules.ARCHIVE_UNREADABLE
            yield rule.finding(
                f"{len(skipped)} archived baseline starts could not be used",
                evidence=(Evidence(excerpt="\n".join(skipped[:_MOST_FILES])),),
                remedy=rule.remedy,
            )


def keep_baseline(
    run_archive: RunArchive,
    experiment: Experiment,
    verdict: Verdict,
    samples: Path,
    environ: Mapping[str, str],
    origin: tuple[str | None, str | None],
) -> tuple[str, ...]:
    """Archive the baseline starts of a run, if this build is trusted. Returns sentences on it.

    `origin` are the identity and the commit of this build. Nothing is archived under a verdict that does not
    rest on answers.
    """
    allowed, reason = _may_write(run_archive.write, environ)
    if not allowed:
        # Without a reason somebody chose that nothing is written, and knows it.
        if not reason:
            return ()
        return (f"nothing was archived: {reason}",)
    fit = [result for result in experiment.results if unfit(result) is None]
    if verdict not in _VERDICTS_ON_ANSWERS or not fit:
        return ()
    archive = run_archive.archive
    try:
        for result in fit:
            with samples.open("rb") as lines:
                build = build_of(environ)
                archive.keep(run_archive.identity, result, lines, build=build, origin=origin)
    except (CiDoctorError, ValueError) as error:
        # The verdict stands, whether or not a later build profits from it.
        return (f"the baseline could not be archived: {error}",)
    left = ""
    try:
        # Here alone: only a build that may write may remove what others wrote.
        archive.evict()
    except StoreError as error:
        left = f"; old ones could not be removed: {error.message}"
    kept = formatting.amount(len(fit), "baseline start")
    return (f"{kept} archived in {archive.place}{left}",)


def _may_write(write: ArchiveWrite, environ: Mapping[str, str]) -> tuple[bool, str]:
    """Whether this build writes; if not, and nobody chose that, the reason."""
    if write is ArchiveWrite.AUTO:
        return is_default_branch_build(environ)
    return write is ArchiveWrite.ALWAYS, ""

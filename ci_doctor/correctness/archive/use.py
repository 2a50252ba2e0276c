# SPDX-License-Identifier: Apache-2.0
"""Acts on the archive: which baseline starts of earlier builds stand beside those of a run, and which of its own are kept."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.correctness.archive.archive import Archive, Found, unfit
from ci_doctor.correctness.archive.facts import schedule_facts
from ci_doctor.correctness.archive.near import explain_near_miss
from ci_doctor.correctness.archive.trust import build_of, trusted
from ci_doctor.correctness.evidence.outputs import Outputs
from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.settings import ArchiveWrite, Arm, ArmPlan, Plan
from ci_doctor.errors import CiDoctorError
from ci_doctor.identity.identity import Identity
from ci_doctor.identity.read import Served, read_identity
from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.model.verdict import Verdict
from ci_doctor.render import figures
from ci_doctor.services.check import start_order
from ci_doctor.system.secrets.redaction import Redactor

# Verdicts that rest on answers: to keep only those of green runs would make the archive another sample than it is taken for.
_SOUND = {
    Verdict.PASS,
    Verdict.FLAKY,
    Verdict.REGRESSION,
    Verdict.NONDETERMINISTIC,
    Verdict.INCONCLUSIVE,
}


class Shelf(Struct, frozen=True, kw_only=True):
    """The archive as one run sees it: what was found there under its `identity`, and what it may write."""

    archive: Archive
    identity: Identity
    found: Found
    write: ArchiveWrite

    def results(self, outputs: Outputs) -> tuple[StartResult, ...]:
        """The archived starts as starts of an experiment; `outputs` learns where their answers stand."""
        for start in self.found.starts:
            for digest, place in start.places.items():
                outputs.note(digest, start.path, place)
        return tuple(start.result() for start in self.found.starts)

    def notes(self) -> Iterator[str]:
        """What a person should know before the first start."""
        if self.found.starts:
            newest = self.found.starts[0]
            count = figures.amount(len(self.found.starts), "archived baseline start")
            yield f"{count} found under the same identity; the newest is of {newest.build}"
            if self.found.unknown:
                yield f"assumed to match, since nobody knows: {', '.join(self.found.unknown)}"
        elif self.found.near:
            yield from explain_near_miss(self.found.near)
        else:
            yield f"no archived baseline in {self.archive.directory} yet"

    def findings(self) -> Iterator[Finding]:
        """A warning where files of the archive are of no use."""
        if self.found.skipped:
            yield Finding(
                rule="correctness/archive-unreadable",
                severity=Severity.WARNING,
                summary=f"{len(self.found.skipped)} archived baseline starts could not be used",
                evidence=(Evidence(excerpt="\n".join(self.found.skipped[:5])),),
                remedy="remove these files; later builds write new ones",
            )


def identity_of(plan: Plan, arm: Arm, redactor: Redactor, ignore: Sequence[str]) -> Identity:
    """What an arm's servers are, before they are started: machine, libraries, model, command line, schedule."""
    made = plan.arms[arm]
    models = {str(request.body["model"]) for request in plan.requests if "model" in request.body}
    facts = schedule_facts(
        plan.requests,
        passes=plan.passes,
        concurrency=plan.concurrency,
        caches=plan.caches,
        reset=made.reset,
    )
    return read_identity(_served(plan, made), models, redactor, ignore).also(Identity.of(facts))


def _served(plan: Plan, made: ArmPlan) -> list[Served]:
    return [
        Served(
            name=name,
            words=tuple(made.specs[name].words()),
            environ={**plan.environment, **made.specs[name].env},
            cwd=plan.services_directory / (made.specs[name].cwd or ""),
        )
        for name in start_order(made.specs, made.names)
    ]


def keep_baseline(
    shelf: Shelf,
    experiment: Experiment,
    verdict: Verdict,
    samples: Path,
    environ: Mapping[str, str],
) -> tuple[str, ...]:
    """Archive the baseline starts of a run whose verdict is sound, where this build is trusted. Says what was done."""
    allowed, why = (
        trusted(environ)
        if shelf.write is ArchiveWrite.AUTO
        else (shelf.write is ArchiveWrite.ALWAYS, "")
    )
    kept = [result for result in experiment.results if unfit(result) is None]
    if not allowed or verdict not in _SOUND or not kept:
        return (f"nothing was archived: {why}",) if why and not allowed else ()
    try:
        for result in kept:
            shelf.archive.keep(shelf.identity, result, _lines(samples), build=build_of(environ))
        shelf.archive.evict()
    except (CiDoctorError, ValueError) as error:
        # The verdict stands, whether or not a later build profits from it.
        return (f"the baseline could not be archived: {error}",)
    return (f"{figures.amount(len(kept), 'baseline start')} archived in {shelf.archive.directory}",)


def _lines(samples: Path) -> Iterable[bytes]:
    with samples.open("rb") as lines:
        yield from lines

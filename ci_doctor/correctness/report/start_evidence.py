# SPDX-License-Identifier: Apache-2.0
"""What the starts show beside their answers: proof, controls, devices, arms, archive. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from ci_doctor.correctness import rules
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import Arm, ArmPlan, Rules
from ci_doctor.correctness.verdict.compare import drift_of
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.correctness.verdict.mix_test import Labels, mix_test, patterns, traits
from ci_doctor.correctness.verdict.schedule import together
from ci_doctor.correctness.verdict.starts import ArmStart, independent_builds
from ci_doctor.model.facts.correctness import (
    ArchiveUseFacts,
    ControlResult,
    IdentityFacts,
)
from ci_doctor.model.finding import Evidence, Finding
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.formatting import amount, listed, probability

# --- why equal answers may show nothing ---


def shared_flaw(results: Sequence[StartResult]) -> str | None:
    """Why equal answers show nothing: a start read what the other arm wrote; None if none did."""
    for result in results:
        for read in result.shared.read:
            return (
                f"{result.start.name} read {read.path}, which changed while {read.writer} ran: "
                "one arm's answers may come from the other"
            )
    return None


def unended_flaw(results: Sequence[StartResult]) -> str | None:
    """Why equal answers may be cut, or were not compared in all that was asked for; None if they were."""
    for result in results:
        looks = result.start.looks
        if looks.unended:
            return (
                f"{looks.unended} of {looks.answered} answers of {result.start.name} have no "
                "`finish_reason`: one that was cut looks the same"
            )
        if looks.unscored:
            return (
                f"{looks.unscored} of {looks.answered} answers of {result.start.name} lack the "
                "log-probabilities that were asked for: none was compared"
            )
        if looks.broken_off:
            request, reason = next(iter(looks.broken_off.items()))
            return (
                f"{len(looks.broken_off)} of {looks.answered} answers of {result.start.name} were taken "
                f'away or given up ({request}: finish_reason "{reason}"): mend the server or its filter, '
                "or leave these requests out"
            )
        if looks.contradictions:
            request, reason = next(iter(looks.contradictions.items()))
            return (
                f"{len(looks.contradictions)} of {looks.answered} answers of {result.start.name} "
                f"contradict themselves ({request}: {reason}): mend what builds them, the server or a proxy"
            )
        if looks.one_number is not None:
            return (
                f"every log-probability of {result.start.name} is exactly {looks.one_number:g}: no model "
                "is equally sure of every token, so let the server give raw log-probabilities"
            )
    return None


# --- what the controls showed ---


def control_findings(starts: Sequence[ArmStart]) -> Iterator[Finding]:
    """A warning for each start whose control did not show that it reads its prompts."""
    for start in starts:
        control = start.control
        if control is not None and control.result is not ControlResult.CHANGED:
            yield rules.CONTROL.finding(
                f"{start.arm} {start.name}: {control.in_words()}", remedy=rules.CONTROL.remedy
            )


# --- on which devices the starts ran, and whether their answers follow the device ---
# The devices were drawn for each pair of starts. So if they do not matter, which start of a pair ran on
# a device is chance, and the test of the arms tests the devices too, with the pairs as blocks.

_LEVEL = 0.05


def device_findings(
    results: Sequence[StartResult], drawn_by: Rules, places: int, at_once: int
) -> Iterator[Finding]:
    """That answers follow the device, and not the arm."""
    made = [each.start for each in results if each.counts and not each.start.archived]
    pairs = [together(made, drawn_by, index, at_once).start for index in range(len(made))]
    starts = [start for start in made if start.devices]
    blocks = tuple(pair for start, pair in zip(made, pairs, strict=True) if start.devices)
    requests = list(starts[0].answers) if starts else []
    given = traits(patterns(starts, requests), [False] * len(starts))
    # What one of two devices shows, the other one shows as well.
    devices = sorted({start.devices for start in starts})
    for device in devices if places > 2 else devices[:1]:
        is_on = tuple(start.devices == device for start in starts)
        on, others = (
            [start for start, here in zip(starts, is_on, strict=True) if here is side]
            for side in (True, False)
        )
        if not given.columns or {each.arm for each in on}.isdisjoint(each.arm for each in others):
            continue
        test = mix_test(given, Labels(candidate=is_on, block=blocks))
        p = test.p if places == 2 else min(1.0, test.p * places)
        if p > _LEVEL or not test.requests:
            continue
        yield rules.DEVICE.finding(
            f"answers follow the device, not the arm: {listed(test.requests, 3)} on device {device} "
            f"and elsewhere; the draw of the devices alone does so in {probability(100 * p)}% of cases",
            evidence=tuple(
                Evidence(excerpt=f"{label}: {listed([each.name for each in side], 8)}")
                for label, side in ((f"on device {device}", on), ("elsewhere", others))
            ),
            remedy=rules.DEVICE.remedy,
        )


# --- what the arms themselves do not have in common, if nobody asked for it ---

_MOST_FACTS = 4
# Under these verdicts a difference between the arms themselves may be the cause.
_MAY_BE_THE_ARMS = {Verdict.REGRESSION, Verdict.INCONCLUSIVE, Verdict.NONDETERMINISTIC}


def arm_findings(
    decision: Decision, identity: IdentityFacts, arms: Mapping[Arm, ArmPlan]
) -> Iterator[Finding]:
    """The differences between the arms that may explain different answers.

    What the configuration itself gives to one arm is meant to differ: its command line, the files
    that only one command names, its variables, its reset. The facts of the report hold these too.
    """
    if decision.verdict not in _MAY_BE_THE_ARMS:
        return
    # What the configuration sets for the services of an arm.
    own = {name for plan in arms.values() for each in plan.names for name in plan.specs[each].env}
    differing = {
        fact: sides for fact, sides in identity.arms.items() if not _is_meant(fact, *sides, own)
    }
    if not differing:
        return
    lines = [
        f"{fact}: {left or 'absent'} -> {right or 'absent'}"
        for fact, (left, right) in differing.items()
    ]
    words = ", ".join(list(differing)[:_MOST_FACTS])
    if len(differing) > _MOST_FACTS:
        words = f"{words} and more"
    yield rules.DIFFERENT_ARMS.finding(
        f"the arms differ in {words}",
        evidence=(Evidence(excerpt="\n".join(lines)),),
        remedy=rules.DIFFERENT_ARMS.remedy,
    )


def _is_meant(fact: str, left: str | None, right: str | None, own: Collection[str]) -> bool:
    """Whether the configuration makes this difference; `own` are the variables that it sets."""
    # With several services, a fact has the name of its own in front: `kv: argv`.
    name = fact.rpartition(": ")[2]
    if name == "argv" or name.startswith("schedule."):
        return True
    # A file that both commands name differs in its content, and that is not in the configuration.
    if name.startswith("file "):
        return left is None or right is None
    return name.startswith("env.") and name.removeprefix("env.") in own


# --- what a report says of the archive beside today's starts ---


def archive_use(starts: Sequence[ArmStart]) -> ArchiveUseFacts | None:
    """How many archived starts there are, of how many builds, and their drift; None without any."""
    archived = [start for start in starts if start.archived]
    if not archived:
        return None
    return ArchiveUseFacts(
        starts=len(archived),
        builds=independent_builds(archived),
        unknown_builds=sum(start.build is None for start in archived),
        drift=drift_of(starts),
    )


def drift_findings(archive: ArchiveUseFacts | None) -> Iterator[Finding]:
    """A warning if today's baseline answers otherwise than the archive."""
    drift = archive.drift if archive else None
    if archive is not None and drift is not None:
        archived = amount(archive.starts, "archived start")
        how = f"share no answer with {archived}"
        if drift.p is not None:
            how = f"mix their answers otherwise than {archived} (exact test, p = {drift.p:.2g})"
        yield rules.ARCHIVE_DRIFT.finding(
            f"{drift.request}: {drift.today} baseline starts of today {how}; the archive is off",
            remedy=rules.ARCHIVE_DRIFT.remedy,
        )

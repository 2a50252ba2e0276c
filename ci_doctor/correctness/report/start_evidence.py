# SPDX-License-Identifier: Apache-2.0
"""What the starts show beside their answers: proof, controls, devices, arms, archive. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct

from ci_doctor.correctness import rules
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import Arm, ArmPlan, Rules
from ci_doctor.correctness.verdict.compare import drift_of
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.correctness.verdict.schedule import together
from ci_doctor.correctness.verdict.starts import ArmStart, independent_builds
from ci_doctor.model.facts.correctness import (
    ArchiveUseFacts,
    ControlResult,
    IdentityFacts,
)
from ci_doctor.model.finding import Evidence, Finding, Severity
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
# The devices were drawn for each pair of starts. So if they do not matter, the devices under which an
# answer came are chance, and how often chance alone would give one answer to one device is counted.

# Fewer starts on a device show no "always".
_FEWEST = 2
_LEVEL = 0.05
# What one of two devices does not get, the other one does.
_MIRRORED = 2


class DeviceSplit(Struct, frozen=True, kw_only=True):
    """`requests` that the starts on a device (`on`) answer in one way and `others` never so.

    Or the other way round, as `is_steady` tells of the device. `chance`: how often the draw of the
    devices gives a device such an answer, if devices do not matter.
    """

    place: str
    on: tuple[StartResult, ...]
    others: tuple[StartResult, ...]
    requests: tuple[str, ...]
    is_steady: bool
    chance: float


def device_findings(
    results: Sequence[StartResult], drawn_by: Rules, places: int, at_once: int
) -> Iterator[Finding]:
    """That answers follow the device; a note if chance may well be the reason."""
    split = device_split(results, drawn_by, places, at_once) if places > 1 else None
    if split is None:
        return
    is_sure = split.chance <= _LEVEL
    steady, varied = (split.on, split.others) if split.is_steady else (split.others, split.on)
    alike = "answer alike to"
    if steady[0].start.answers.get(split.requests[0]) is None:
        alike = "do not answer"
    evidence = tuple(
        Evidence(excerpt=f"{label}: {_names(each)}")
        for label, each in ((f"on device {split.place}", split.on), ("elsewhere", split.others))
    )
    summary = (
        f"{amount(len(split.requests), 'answer')} {'follow' if is_sure else 'may follow'} the device, "
        f"not the arm: {_names(steady)} {alike} {listed(split.requests, 3)}, "
        f"and {_names(varied)} never so; {len(split.on)} ran on device {split.place} and "
        f"{len(split.others)} elsewhere; the draw of the devices alone does so in "
        f"{probability(100 * split.chance)}% of cases"
    )
    severity = Severity.WARNING if is_sure else Severity.NOTE
    yield rules.DEVICE.finding(summary, evidence=evidence, severity=severity)


def device_split(
    results: Sequence[StartResult], drawn_by: Rules, places: int, at_once: int
) -> DeviceSplit | None:
    """The requests whose answers separate one device from the others; None if none do.

    Of two devices that do, the one with more such requests. Not if that separates the arms as well.
    """
    made = [result for result in results if result.counts and not result.start.archived]
    starts = [result.start for result in made]
    waves = {
        result.start.name: together(starts, drawn_by, index, at_once)
        for index, result in enumerate(made)
    }
    members = [each for each in made if each.start.devices]
    patterns = _patterns(members)
    everyone = frozenset(each.start.name for each in members)
    # Any of these answers to some device, or to all but one; of two devices that is the same.
    sets = {each for names in patterns for each in (names, everyone - names)}
    chance = sum(_chance(members, names, waves, places) for names in sets)
    splits = []
    for place in dict.fromkeys(each.start.devices for each in members):
        on = tuple(each for each in members if each.start.devices == place)
        others = tuple(each for each in members if each.start.devices != place)
        arms = [{each.start.arm for each in side} for side in (on, others)]
        if min(len(on), len(others)) < _FEWEST or not arms[0] & arms[1]:
            continue
        names = frozenset(each.start.name for each in on)
        requests = (*patterns.get(names, ()), *patterns.get(everyone - names, ()))
        if requests:
            split = DeviceSplit(
                place=place,
                on=on,
                others=others,
                requests=tuple(dict.fromkeys(requests)),
                is_steady=names in patterns,
                chance=min(1.0, chance if places == _MIRRORED else places * chance),
            )
            splits.append(split)
    return max(splits, key=lambda split: len(split.requests), default=None)


def _patterns(members: Sequence[StartResult]) -> dict[frozenset[str], tuple[str, ...]]:
    """Sets of starts that gave a request one answer which no other start gave, with these requests."""
    patterns: dict[frozenset[str], tuple[str, ...]] = {}
    requests = members[0].start.answers if members else {}
    for request in requests:
        by_answer: dict[str | None, set[str]] = {}
        for each in members:
            by_answer.setdefault(each.start.answers.get(request), set()).add(each.start.name)
        for names in map(frozenset, by_answer.values()):
            if _FEWEST <= len(names) <= len(members) - _FEWEST:
                patterns[names] = (*patterns.get(names, ()), request)
    return patterns


def _chance(
    members: Sequence[StartResult], names: frozenset[str], waves: dict[str, range], places: int
) -> float:
    """How often one device is drawn for exactly these starts: at most one of those that run at once."""
    sizes: dict[range, list[bool]] = {}
    for each in members:
        sizes.setdefault(waves[each.start.name], []).append(each.start.name in names)
    chance = 1.0
    for inside in sizes.values():
        match sum(inside):
            case 0:
                chance *= 1 - len(inside) / places
            case 1:
                chance /= places
            case _:
                return 0.0
    return chance


def _names(results: Sequence[StartResult]) -> str:
    return listed([result.start.name for result in results], 8)


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

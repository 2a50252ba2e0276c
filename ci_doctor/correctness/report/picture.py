# SPDX-License-Identifier: Apache-2.0
"""The picture of an experiment for people: at most 20 lines, in the order of their questions. Pure."""

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from statistics import median_low

from ci_doctor.correctness.report.differences import Difference
from ci_doctor.correctness.report.divergence import Unit
from ci_doctor.correctness.report.findings import Context, replay_command
from ci_doctor.correctness.report.hardness import Hardness
from ci_doctor.correctness.report.suspects import groups_of, suspects, within
from ci_doctor.correctness.results import Experiment
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import Kind, Start, counted, spoken
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.model.table import Table, text_table

# Of the terminal's form: what a person reads at a glance, and a Buildkite annotation shows whole.
_ROWS = 19
_WIDTH = 80
_SUSPECTS = 3
_LABEL = 11
_MANY = 4
_STABLE = (Kind.EQUAL, Kind.CHANGED, Kind.SOMETIMES)
_VARYING = (Kind.FLAKY, Kind.OWN)


def sections(
    experiment: Experiment, decision: Decision, found: Sequence[Difference], context: Context
) -> tuple[Table, ...]:
    """The picture: is it the change, are they always the same requests, what kind of difference, where first, what next.

    At most 20 lines of 80 cells with its title; where there is more to say, suspects are left out first.
    """
    starts = experiment.starts
    if not starts:
        return ()
    before = [*_who(experiment), *_which(starts, decision), *_how(experiment, found)]
    after = [*_sure(decision), *_next(decision, found, context)]
    lines = [_labelled(label, text) for label, text in (*before, *after)]
    for number, sentence in enumerate(suspects(experiment, decision, found)[:_SUSPECTS]):
        line = _labelled("" if number else "suspects", sentence)
        if _rows([*lines, line]) > _ROWS:
            break
        lines.insert(len(before) + number, line)
    return (text_table(title="Evidence", lines=tuple(lines)),)


def _labelled(label: str, text: str) -> str:
    return f"{label or '·':<{_LABEL}}{text}"


def _rows(lines: Sequence[str]) -> int:
    from ci_doctor.render.layout import wrap

    return sum(len(wrap(line, _WIDTH, first="  ", rest="    ")) for line in lines)


def _who(experiment: Experiment) -> Iterator[tuple[str, str]]:
    """Which starts there are, whether they answered, and which of them answered alike."""
    starts = experiment.starts
    archived = [start for start in starts if start.archived]
    today = [start for start in starts if not start.archived]
    names = [_span([start.name for start in today if start.arm is arm]) or "none" for arm in Arm]
    dropped = len(counted(starts)) < sum(not start.outside for start in starts)
    aside = ", set aside: today's baseline answers otherwise" if dropped else ""
    old = f"   archived {_span([start.name for start in archived])}{aside}" if archived else ""
    yield "starts", f"{names[0]} | {names[1]}{old}"
    total = max(len(start.answers) for start in starts)
    less = [f"{start.name} {start.answered}/{total}" for start in starts if start.answered < total]
    if len(less) == len(starts) and len({start.answered for start in starts}) == 1:
        yield "answered", f"{starts[0].answered}/{total} each"
    else:
        few = [
            *less[:_MANY],
            *([f"{len(less) - _MANY} more starts less"] if len(less) > _MANY else []),
        ]
        yield "answered", ", ".join(few) + ", the others all" if few else f"{total}/{total} each"
    groups = ["{" + _span(names) + "}" for names in groups_of(experiment)]
    if groups:
        shown = _fitting(groups)
        more = f"  and {len(groups) - shown} more" if shown < len(groups) else ""
        yield "clusters", "  ".join(groups[:shown]) + more


def _span(names: Sequence[str]) -> str:
    """`A1 A2 A3`, or `A1-A8` where there are many in a row."""
    numbers = [int(name[1:]) for name in names]
    row = names and numbers == list(range(numbers[0], numbers[0] + len(names)))
    same = len({name[0] for name in names}) == 1
    return f"{names[0]}-{names[-1]}" if row and same and len(names) > _MANY + 1 else " ".join(names)


def _fitting(groups: Sequence[str], cells: int = 50) -> int:
    """How many groups fit on a line; at least one."""
    used = 0
    for index, group in enumerate(groups):
        used += len(group) + 2
        if used > cells:
            return max(1, index)
    return len(groups)


def _which(starts: Sequence[Start], decision: Decision) -> Iterator[tuple[str, str]]:
    """How many requests differ, between which starts, and of what kind they are."""
    baseline = [start for start in spoken(starts) if start.arm is Arm.BASELINE]
    candidate = [start for start in spoken(starts) if start.arm is Arm.CANDIDATE]
    kinds = {
        "A/A": combinations(baseline, 2),
        "A/B": product(baseline, candidate),
        "B/B": combinations(candidate, 2),
    }
    told = []
    for name, pairs in kinds.items():
        numbers = sorted({differing(one, other) for one, other in pairs})
        if numbers:
            told.append(f"{name} {numbers[0]}" + (f" to {numbers[-1]}" if len(numbers) > 1 else ""))
    if told:
        yield (
            "differing",
            "   ".join(told) + f"   of {len(decision.kinds) or len(starts[0].answers)} requests",
        )
    parts = [
        f"{decision.count(*kinds)} {word} ({', '.join(f'{decision.count(kind)} {kind}' for kind in kinds if decision.count(kind))})"
        for word, kinds in (("stable", _STABLE), ("varying", _VARYING))
        if decision.count(*kinds)
    ]
    parts += (
        [f"{decision.count(Kind.UNANSWERED)} unanswered"] if decision.count(Kind.UNANSWERED) else []
    )
    parts += [f"{len(decision.test.disputed)} disputed"] if decision.test else []
    if parts:
        yield "requests", ", ".join(parts)


def differing(one: Start, other: Start) -> int:
    """How many requests two starts answered differently."""
    return sum(one.answers[request] != other.answers.get(request) for request in one.answers)


def _how(experiment: Experiment, found: Sequence[Difference]) -> Iterator[tuple[str, str]]:
    """What kind the differences are, where the first is, and whether passes differ inside a start."""
    if found:
        counts = {
            kind: sum(each.divergence.hardness is kind for each in found) for kind in Hardness
        }
        told = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        alone = counts[Hardness.UNKNOWN] == len(found)
        yield (
            "kind",
            f"{told}: with `logprobs` a request tells rounding from a fault" if alone else told,
        )
    unit, positions = positions_of(found)
    if positions:
        spread = f"{positions[0]} to {positions[-1]}, median {median_low(positions)}"
        where = spread if positions[0] != positions[-1] else str(positions[0])
        ulps = [
            each.divergence.ulp
            for each in found
            if each.divergence.ulp is not None and each.divergence.hardness is not Hardness.NUMBERS
        ]
        before = f"; log-probabilities up to {_steps(max(ulps))} ULP apart before" if ulps else ""
        yield "first at", f"{unit} {where}{before}"
    inside = within(experiment)
    varying = [f"{name} {count}" for name, count in inside.items() if count]
    if varying:
        more = f" and {len(varying) - _MANY} more starts" if len(varying) > _MANY else ""
        yield "passes", f"requests that differ inside a start: {', '.join(varying[:_MANY])}{more}"
    elif inside and found:
        yield "passes", "no request differs inside a start"


def _steps(ulp: int) -> str:
    """`3`, `6.3 million`: what is far apart needs no digits."""
    return str(ulp) if ulp < 100_000 else f"{ulp / 1e6:.1f} million"


def positions_of(found: Sequence[Difference]) -> tuple[Unit, list[int]]:
    """Where the requests part first, sorted, in the unit in which most of them can be told."""
    at = {unit: sorted(_positions(found, unit)) for unit in Unit}
    unit = max(at, key=lambda each: len(at[each]))
    return unit, at[unit]


def _positions(found: Sequence[Difference], unit: Unit) -> Iterator[int]:
    for each in found:
        if each.divergence.unit is unit and each.divergence.position is not None:
            yield each.divergence.position


def _sure(decision: Decision) -> Iterator[tuple[str, str]]:
    """How sure the verdict is."""
    if test := decision.test:
        yield (
            "test",
            f"p {test.p:.3g}, at best {test.smallest_p:.3g} with {test.labelings} labelings; told from {test.level:.3g} down",
        )
    if decision.risk:
        yield "risk", decision.risk


def _next(
    decision: Decision, found: Sequence[Difference], context: Context
) -> Iterator[tuple[str, str]]:
    if decision.settle:
        yield "to settle", decision.settle
    if found:
        yield "next", f"`{replay_command(found[0], context)}`"

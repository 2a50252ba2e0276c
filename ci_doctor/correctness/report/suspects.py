# SPDX-License-Identifier: Apache-2.0
"""What lines up with the differences, as sentences with figures: never more than the data shows. Pure."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from ci_doctor.correctness.report.differences import Difference, counted_results
from ci_doctor.correctness.report.divergence import Unit
from ci_doctor.correctness.report.hardness import NEAR_NAT, Hardness
from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import Kind, clusters, spoken
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.render.figures import amount

NOT_THERE = "none"
Groups = Sequence[Sequence[str]]


def suspects(
    experiment: Experiment, decision: Decision, found: Sequence[Difference]
) -> tuple[str, ...]:
    """Sentences about `found`, most telling first; none where nothing differs and no start differs from itself."""
    results = [result for result in counted_results(experiment) if result.start.answered]
    groups = groups_of(experiment)
    return tuple(
        sentence
        for rule in _RULES
        for sentence in rule(_Case(results=results, groups=groups, decision=decision, found=found))
    )


class _Case:
    """What the rules look at: today's and archived starts, their clusters, the kinds, and the differences."""

    def __init__(
        self,
        *,
        results: Sequence[StartResult],
        groups: Groups,
        decision: Decision,
        found: Sequence[Difference],
    ) -> None:
        self.results = results
        self.groups = groups
        self.decision = decision
        self.found = found


def groups_of(experiment: Experiment) -> Groups:
    """The names of the starts that answered everything alike, group by group."""
    return [sorted(names, key=_by_arm) for names in clusters(spoken(experiment.starts))]


def _by_arm(name: str) -> tuple[str, bool, int]:
    """A1 before A2 before B1, and a1 after A2."""
    return name[0].upper(), name[0].islower(), int(name[1:])


def within(experiment: Experiment) -> dict[str, int]:
    """By start, how many requests were answered differently in two of its passes; only starts that were asked twice."""
    return {
        result.start.name: sum(len(set(passes.values())) > 1 for passes in result.digests.values())
        for result in counted_results(experiment)
        if any(len(passes) > 1 for passes in result.digests.values())
    }


def fact_differences(results: Sequence[StartResult]) -> dict[str, dict[str, str]]:
    """The facts that are not the same in all starts that tell any, each with its value by start."""
    told = {result.start.name: result.facts for result in results if result.facts}
    names = sorted({fact for facts in told.values() for fact in facts})
    values = {
        fact: {name: facts.get(fact, NOT_THERE) for name, facts in told.items()} for fact in names
    }
    return {fact: by_start for fact, by_start in values.items() if len(set(by_start.values())) > 1}


def lines_up(groups: Groups, values: Mapping[str, str]) -> bool:
    """Whether `values` (by start) are one in each group, and not the same in all of them.

    Where every start is a group of its own anything would line up, so that says nothing (but for two starts, where there
    is nothing else to say).
    """
    known = [[values[name] for name in group if name in values] for group in groups]
    known = [group for group in known if group]
    if len(known) < 2 or any(len(set(group)) > 1 for group in known):
        return False
    telling = any(len(group) > 1 for group in known) or len(known) == 2
    return telling and len({group[0] for group in known}) > 1


def _swapped(case: _Case) -> Iterator[str]:
    """An answer that is another request's: looked for against the first start that answered, the baseline's."""
    reference = next((result for result in case.results if result.start.arm is Arm.BASELINE), None)
    if reference is None:
        return
    said = Counter(
        digest for passes in reference.digests.values() for digest in set(passes.values())
    )
    owner = {
        digest: request
        for request, passes in reference.digests.items()
        for digest in passes.values()
        if said[digest] == 1  # an answer such as "Yes" is nobody's own
    }
    seen: dict[str, tuple[str, str]] = {}
    for result in case.results:
        for request, passes in result.digests.items():
            for digest in passes.values():
                if owner.get(digest, request) != request:
                    seen.setdefault(request, (result.start.name, owner[digest]))
    if seen:
        request, (start, other) = next(iter(seen.items()))
        count = "1 request was" if len(seen) == 1 else f"{len(seen)} requests were"
        yield f"{count} answered as another is: {request} in {start} as {other} in {reference.start.name}"


def _hard_ones(case: _Case) -> Iterator[str]:
    """Whether the candidate's own differences are harder than those that the baseline has with itself."""
    counts = {
        own: Counter(
            each.divergence.hardness for each in case.found if (each.kind is not Kind.FLAKY) is own
        )
        for own in (True, False)
    }
    hard, total = counts[True][Hardness.HARD], counts[True].total()
    flaky = counts[False].total()
    if hard and flaky and hard * flaky > counts[False][Hardness.HARD] * total:
        yield (
            f"{hard} of {total} differences of the candidate's own are hard, against {counts[False][Hardness.HARD]} of "
            f"{flaky} between baseline starts"
        )


def _facts(case: _Case) -> Iterator[str]:
    for fact, values in fact_differences(case.results).items():
        if lines_up(case.groups, values):
            yield f"{fact} lines up with the clusters: {_by_value(values)}"


def _caches(case: _Case) -> Iterator[str]:
    added = {
        result.start.name: result.cached for result in case.results if result.cached is not None
    }
    values = {name: "cold" if count else "warm" for name, count in added.items()}
    if lines_up(case.groups, values):
        cold = [f"{name} added {amount(count, 'file')}" for name, count in added.items() if count]
        warm = " ".join(name for name, count in added.items() if not count)
        more = f" and {len(cold) - 3} more" if len(cold) > 3 else ""
        yield f"cold and warm compile caches line up with the clusters: {', '.join(cold[:3])}{more}; {warm} none"


def _by_value(values: Mapping[str, str]) -> str:
    names: dict[str, list[str]] = {}
    for name, value in values.items():
        names.setdefault(value, []).append(name)
    return ", ".join(f"{value} in {' '.join(starts)}" for value, starts in names.items())


def _passes(case: _Case) -> Iterator[str]:
    """Batching and scheduling vary within a process, the choice of kernels from one to the next."""
    several = [
        result
        for result in case.results
        if any(len(passes) > 1 for passes in result.digests.values())
    ]
    varying = {
        result.start.name: count
        for result in several
        if (count := sum(len(set(passes.values())) > 1 for passes in result.digests.values()))
    }
    if varying:
        shown = ", ".join(f"{count} in {name}" for name, count in list(varying.items())[:4])
        more = f" and {len(varying) - 4} more starts" if len(varying) > 4 else ""
        yield f"answers differ between passes of one start ({shown}{more}), as with batching"
    elif several and any(len(groups) > 1 for groups in _by_letter(case.groups).values()):
        yield "each start repeats itself in all passes, starts differ: as with kernels chosen once per start"


def _arms(case: _Case) -> Iterator[str]:
    """Whether the clusters are the arms."""
    split = _by_letter(case.groups)
    if (
        len(case.groups) == 2
        and len(split) == 2
        and all(len(groups) == 1 for groups in split.values())
    ):
        sizes = sorted(len(group) for group in case.groups)
        if sizes[0] > 1:
            yield "the clusters are the arms: each agrees with itself in every start, and with the other in none"


def _by_letter(groups: Groups) -> dict[str, set[int]]:
    """By arm's letter, in which groups its starts are."""
    found: dict[str, set[int]] = {}
    for index, group in enumerate(groups):
        for name in group:
            found.setdefault(name[0].upper(), set()).add(index)
    return found


def _beginning(case: _Case) -> Iterator[str]:
    at = [each.divergence for each in case.found if each.divergence.position is not None]
    numbers = sum(each.field == "logprobs" for each in at)
    if at and numbers == len(case.found):
        yield f"in {_all_of(numbers, len(case.found))} only log-probabilities differ: every token is the same"
    elif len(at) > 1 and all(each.position == 0 for each in at):
        unit = Unit.TOKEN if at[0].unit is Unit.TOKEN else Unit.CHARACTER
        yield f"{_all_of(len(at), len(case.found))} part at the first {unit}: nothing that was generated comes before"


def _rounding(case: _Case) -> Iterator[str]:
    near = [each for each in case.found if each.divergence.hardness is Hardness.NEAR_TIE]
    if (
        near
        and 2 * len(near) >= len(case.found)
        and not all(each.divergence.field == "logprobs" for each in near)
    ):
        yield f"{_all_of(len(near), len(case.found))} part where two tokens are less than {NEAR_NAT:g} nat apart: rounding can flip them"


def _all_of(some: int, total: int) -> str:
    return f"all {total}" if some == total and total > 1 else f"{some} of {total}"


_RULES: tuple[Callable[[_Case], Iterator[str]], ...] = (
    _swapped,
    _hard_ones,
    _arms,
    _facts,
    _caches,
    _passes,
    _beginning,
    _rounding,
)

# SPDX-License-Identifier: Apache-2.0
"""Which starts answered alike, and what lines up with the differences, as sentences with figures. Pure.

A sentence names a correlation in the data, never a cause.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from ci_doctor.correctness.report.differences import counted_results
from ci_doctor.correctness.report.divergence import NEAR_NAT
from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import answering, clusters
from ci_doctor.correctness.verdict.starts import ArmStart, DifferenceKind
from ci_doctor.model.facts.correctness import AlignedAnswers, Hardness
from ci_doctor.render.formatting import amount

# --- which starts answered alike, which differ from themselves, and what lines up with that ---

Groups = Sequence[Sequence[str]]


def groups_of(experiment: Experiment) -> Groups:
    """The names of the starts that answered everything alike, group by group."""
    # A1 before A2 before B1, and the archived a1 after A2.
    return [
        sorted(names, key=lambda name: (name[0].upper(), name[0].islower(), int(name[1:])))
        for names in clusters(answering(experiment.starts))
    ]


def answer_classes(answers: Sequence[str | None]) -> tuple[int | None, ...]:
    """Each answer's number in order of first appearance, from 0; None for no answer."""
    numbers: dict[str, int] = {}
    # A new answer gets the next number; one that was there before keeps its own.
    return tuple(
        None if answer is None else numbers.setdefault(answer, len(numbers)) for answer in answers
    )


def differing(one: ArmStart, other: ArmStart) -> int:
    """How many requests two starts answered differently."""
    return sum(answer != other.answers.get(request) for request, answer in one.answers.items())


def groups_by_arm(groups: Groups) -> dict[str, set[int]]:
    """By arm's letter, the indexes of the groups of its starts."""
    indexes: dict[str, set[int]] = {}
    for index, group in enumerate(groups):
        for name in group:
            # `a1` is an archived start of arm A.
            indexes.setdefault(name[0].upper(), set()).add(index)
    return indexes


def varying_requests(result: StartResult) -> int:
    """How many requests a start answered differently in two of its passes."""
    return sum(len(set(passes.values())) > 1 for passes in result.digests.values())


def repeated(result: StartResult) -> bool:
    """Whether a start got a request more than once."""
    return any(len(passes) > 1 for passes in result.digests.values())


def within(experiment: Experiment) -> dict[str, int]:
    """By start, how many requests vary between its passes; only starts with several passes."""
    results = filter(repeated, counted_results(experiment))
    return {result.start.name: varying_requests(result) for result in results}


def fact_differences(results: Sequence[StartResult]) -> dict[str, dict[str, str]]:
    """The facts that differ between starts, in order of name, each with its value by start."""
    # A start without any fact was not looked at: it differs in nothing.
    with_facts = [result for result in results if result.facts]
    facts = sorted({fact for result in with_facts for fact in result.facts})
    values = {
        fact: {result.start.name: result.facts.get(fact, "none") for result in with_facts}
        for fact in facts
    }
    return {fact: by_start for fact, by_start in values.items() if len(set(by_start.values())) > 1}


def lines_up(groups: Groups, values: Mapping[str, str]) -> bool:
    """Whether `values` (by start) are the same inside each group, and differ between groups."""
    columns = [[values[name] for name in group if name in values] for group in groups]
    columns = [column for column in columns if column]
    if any(len(set(column)) > 1 for column in columns):
        return False
    # If every start is a group of its own, any fact that differs would line up. That proves
    # nothing. With two starts there is nothing else to report, so it is.
    if max(map(len, columns), default=0) == 1 and len(columns) != 2:
        return False
    return len({column[0] for column in columns}) > 1


# --- what lines up with the differences, as sentences with figures ---


class _Comparison(Struct, frozen=True, kw_only=True):
    """What the rules look at: the starts that answered, their clusters, and the differences.

    `is_exact`: the gate compares everything, byte for byte.
    """

    results: Sequence[StartResult]
    is_exact: bool
    groups: Groups
    differences: Sequence[AlignedAnswers]


def suspects(experiment: Experiment, differences: Sequence[AlignedAnswers]) -> tuple[str, ...]:
    """Sentences about the differences, the most telling first.

    None if nothing differs and no start differs from itself.
    """
    comparison = _Comparison(
        results=[result for result in counted_results(experiment) if result.start.answered],
        is_exact=experiment.comparison.is_exact,
        groups=groups_of(experiment),
        differences=differences,
    )
    return tuple(sentence for rule in _RULES for sentence in rule(comparison))


def _swapped(comparison: _Comparison) -> Iterator[str]:
    """Answers that are another request's in the first baseline start."""
    results = comparison.results
    reference = next((each for each in results if each.start.arm is Arm.BASELINE), None)
    if reference is None:
        return
    requests: dict[str, set[str]] = {}
    for _, request, digest in _answers([reference]):
        requests.setdefault(digest, set()).add(request)
    # An answer such as "Yes" to two requests belongs to neither.
    owner = {digest: min(of) for digest, of in requests.items() if len(of) == 1}
    swapped: dict[str, str] = {}
    for name, request, digest in _answers(results):
        other = owner.get(digest, request)
        if other != request:
            where = f"{request} in {name} as {other} in {reference.start.name}"
            swapped.setdefault(request, where)
    if swapped:
        count = "1 request was" if len(swapped) == 1 else f"{len(swapped)} requests were"
        yield f"{count} answered as another is: {next(iter(swapped.values()))}"


def _answers(results: Iterable[StartResult]) -> Iterator[tuple[str, str, str]]:
    """Start, request and digest of every answer."""
    for result in results:
        for request, passes in result.digests.items():
            for digest in passes.values():
                yield result.start.name, request, digest


def _hard_ones(comparison: _Comparison) -> Iterator[str]:
    """Whether the candidate's own differences are harder than those between baseline starts."""
    own, flaky = (
        Counter(
            each.hardness
            for each in comparison.differences
            if (each.kind == DifferenceKind.FLAKY) is is_flaky
        )
        for is_flaky in (False, True)
    )
    # The shares are compared by cross-multiplication: exact, and no division by zero.
    if flaky and own[Hardness.HARD] * flaky.total() > flaky[Hardness.HARD] * own.total():
        yield (
            f"{own[Hardness.HARD]} of {own.total()} differences of the candidate's own are hard, "
            f"against {flaky[Hardness.HARD]} of {flaky.total()} between baseline starts"
        )


def _arms(comparison: _Comparison) -> Iterator[str]:
    """Whether the clusters are the arms."""
    by_arm = groups_by_arm(comparison.groups)
    are_arms = len(comparison.groups) == len(by_arm) == 2 and all(
        len(indexes) == 1 for indexes in by_arm.values()
    )
    # One start of an arm agrees with itself in any case.
    if are_arms and min(map(len, comparison.groups)) > 1:
        yield (
            "the clusters are the arms: each agrees with itself in every start, "
            "and with the other in none"
        )


def _facts(comparison: _Comparison) -> Iterator[str]:
    for fact, values in fact_differences(comparison.results).items():
        if lines_up(comparison.groups, values):
            names: dict[str, list[str]] = {}
            for name, value in values.items():
                names.setdefault(value, []).append(name)
            # `12.4 in A1, 12.5 in B1 A2`
            words = ", ".join(f"{value} in {' '.join(each)}" for value, each in names.items())
            yield f"{fact} lines up with the clusters: {words}"


def _caches(comparison: _Comparison) -> Iterator[str]:
    """Starts that filled the compile caches against starts that had them filled."""
    # None: nothing is known of its caches, so it is neither cold nor warm.
    cached = {
        result.start.name: result.cached
        for result in comparison.results
        if result.cached is not None
    }
    states = {name: "cold" if count else "warm" for name, count in cached.items()}
    if lines_up(comparison.groups, states):
        cold = [f"{name} added {amount(count, 'file')}" for name, count in cached.items() if count]
        warm = " ".join(name for name, count in cached.items() if not count)
        yield (
            "cold and warm compile caches line up with the clusters: "
            f"{_shortened(cold, 3, 'more')}; {warm} none"
        )


def _passes(comparison: _Comparison) -> Iterator[str]:
    """Batches and caches vary within a process, the choice of kernels between processes."""
    # Passes are compared byte for byte: for another gate they may all be the same.
    if not comparison.is_exact and not comparison.differences:
        return
    several = [result for result in comparison.results if repeated(result)]
    varying = [result for result in several if varying_requests(result)]
    if varying:
        names = [f"{varying_requests(result)} in {result.start.name}" for result in varying]
        manner = ", as with batching or a cache"
        if _vary_alike(varying):
            manner = ", in each start in the same way: as with a state that a start builds up, such as a cache"
        starts = _shortened(names, 4, "more starts")
        yield f"answers differ between passes of one start ({starts}){manner}"
    # Starts of two arms may differ for the change itself.
    elif several and any(len(each) > 1 for each in groups_by_arm(comparison.groups).values()):
        yield (
            "each start repeats itself in all passes, starts differ: "
            "as with kernels chosen once per start"
        )


def _vary_alike(varying: Iterable[StartResult]) -> bool:
    """Whether each start has another of its arm that gave the same answers in the same passes."""
    by_arm: dict[Arm, list[StartResult]] = {}
    for result in varying:
        by_arm.setdefault(result.start.arm, []).append(result)
    # One start alone cannot show that it repeats itself.
    return all(
        others and all(other.digests == first.digests for other in others)
        for first, *others in by_arm.values()
    )


def _shortened(words: Sequence[str], most: int, noun: str) -> str:
    """At most `most` words, and how many more there are."""
    shown = ", ".join(words[:most])
    more = len(words) - most
    return f"{shown} and {more} {noun}" if more > 0 else shown


def _beginning(comparison: _Comparison) -> Iterator[str]:
    """Whether the answers differ from the first position on, or in numbers alone."""
    total = len(comparison.differences)
    numbers = sum(each.field == "logprobs" for each in comparison.differences)
    first = [each for each in comparison.differences if each.position == 0]
    if numbers and numbers == total:
        share = _share(numbers, total)
        yield f"in {share} only log-probabilities differ: every token is the same"
    elif len(first) > 1 and not any(each.position for each in comparison.differences):
        share = _share(len(first), total)
        yield f"{share} diverge at the first {first[0].unit}: nothing that was generated comes before"


def _rounding(comparison: _Comparison) -> Iterator[str]:
    total = len(comparison.differences)
    near = sum(each.hardness is Hardness.NEAR_TIE for each in comparison.differences)
    # A few near-ties among harder differences explain nothing.
    if near and 2 * near >= total:
        yield (
            f"{_share(near, total)} diverge where two tokens are less than {NEAR_NAT:g} nat apart: "
            "rounding can flip them"
        )


def _share(some: int, total: int) -> str:
    # "all 1" would be odd: of a single difference both figures are given.
    return f"all {total}" if some == total and total > 1 else f"{some} of {total}"


_RULES: tuple[Callable[[_Comparison], Iterator[str]], ...] = (
    _swapped,
    _hard_ones,
    _arms,
    _facts,
    _caches,
    _passes,
    _beginning,
    _rounding,
)

# SPDX-License-Identifier: Apache-2.0
"""Which starts answered alike, and what lines up with the differences, as sentences with figures. Pure.

A sentence names a correlation in the data, never a cause.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from ci_doctor.correctness.report.differences import AnswerDifference, counted_results
from ci_doctor.correctness.report.tokens import NEAR_NAT, Hardness
from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import answering, clusters
from ci_doctor.correctness.verdict.starts import ArmStart, DifferenceKind
from ci_doctor.render.formatting import amount

# --- which starts answered alike, which differ from themselves, and what lines up with that ---

NOT_THERE = "none"
Groups = Sequence[Sequence[str]]


def groups_of(experiment: Experiment) -> Groups:
    """The names of the starts that answered everything alike, group by group."""
    groups = []
    for names in clusters(answering(experiment.starts)):
        group = sorted(names, key=_by_arm)
        groups.append(group)
    return groups


def _by_arm(name: str) -> tuple[str, bool, int]:
    """A1 before A2 before B1, and the archived a1 after A2."""
    return name[0].upper(), name[0].islower(), int(name[1:])


def answer_classes(answers: Sequence[str | None]) -> tuple[int | None, ...]:
    """Each answer's number in order of first appearance, from 0; None for no answer."""
    numbers: dict[str, int] = {}
    classes: list[int | None] = []
    for answer in answers:
        if answer is None:
            classes.append(None)
            continue
        # A new answer gets the next number; one that was there before keeps its own.
        number = numbers.setdefault(answer, len(numbers))
        classes.append(number)
    return tuple(classes)


def differing(one: ArmStart, other: ArmStart) -> int:
    """How many requests two starts answered differently."""
    count = 0
    for request, answer in one.answers.items():
        count += answer != other.answers.get(request)
    return count


def groups_by_arm(groups: Groups) -> dict[str, set[int]]:
    """By arm's letter, the indexes of the groups of its starts."""
    indexes: dict[str, set[int]] = {}
    for index, group in enumerate(groups):
        for name in group:
            # `a1` is an archived start of arm A.
            letter = name[0].upper()
            of_arm = indexes.setdefault(letter, set())
            of_arm.add(index)
    return indexes


def repeated(result: StartResult) -> bool:
    """Whether a start got a request more than once."""
    return any(len(passes) > 1 for passes in result.digests.values())


def varying_requests(result: StartResult) -> int:
    """How many requests a start answered differently in two of its passes."""
    count = 0
    for passes in result.digests.values():
        answers = set(passes.values())
        count += len(answers) > 1
    return count


def within(experiment: Experiment) -> dict[str, int]:
    """By start, how many requests vary between its passes; only starts with several passes."""
    counts = {}
    for result in counted_results(experiment):
        if repeated(result):
            counts[result.start.name] = varying_requests(result)
    return counts


def fact_differences(results: Sequence[StartResult]) -> dict[str, dict[str, str]]:
    """The facts that differ between starts, in order of name, each with its value by start."""
    # A start without any fact was not looked at: it differs in nothing.
    with_facts = [result for result in results if result.facts]
    facts: set[str] = set()
    for result in with_facts:
        facts.update(result.facts)
    differing = {}
    for fact in sorted(facts):
        values = _values(with_facts, fact)
        distinct = set(values.values())
        if len(distinct) > 1:
            differing[fact] = values
    return differing


def _values(results: Sequence[StartResult], fact: str) -> dict[str, str]:
    """The value of a fact by start."""
    values = {}
    for result in results:
        name = result.start.name
        values[name] = result.facts.get(fact, NOT_THERE)
    return values


def lines_up(groups: Groups, values: Mapping[str, str]) -> bool:
    """Whether `values` (by start) are the same inside each group, and differ between groups."""
    columns = _columns(groups, values)
    if any(len(set(column)) > 1 for column in columns):
        return False
    # If every start is a group of its own, any fact that differs would line up. That proves
    # nothing. With two starts there is nothing else to report, so it is.
    largest = max(map(len, columns), default=0)
    if largest == 1 and len(columns) != 2:
        return False
    firsts = {column[0] for column in columns}
    return len(firsts) > 1


def _columns(groups: Groups, values: Mapping[str, str]) -> list[list[str]]:
    """The values of each group that has any."""
    columns = []
    for group in groups:
        column = [values[name] for name in group if name in values]
        if column:
            columns.append(column)
    return columns


# --- what lines up with the differences, as sentences with figures ---
# A sentence names a correlation in the data, never a cause.


class _Comparison(Struct, frozen=True, kw_only=True):
    """What the rules look at: the starts that answered, their clusters, and the differences.

    `is_exact`: the gate compares everything, byte for byte.
    """

    results: Sequence[StartResult]
    is_exact: bool
    groups: Groups
    differences: Sequence[AnswerDifference]


def suspects(experiment: Experiment, differences: Sequence[AnswerDifference]) -> tuple[str, ...]:
    """Sentences about the differences, the most telling first.

    None if nothing differs and no start differs from itself.
    """
    comparison = _Comparison(
        results=[result for result in counted_results(experiment) if result.start.answered],
        is_exact=experiment.comparison.is_exact,
        groups=groups_of(experiment),
        differences=differences,
    )
    sentences: list[str] = []
    for rule in _RULES:
        sentences.extend(rule(comparison))
    return tuple(sentences)


def _swapped(comparison: _Comparison) -> Iterator[str]:
    """Answers that are another request's in the first baseline start."""
    reference = _first_baseline(comparison.results)
    if reference is None:
        return
    owner = _owners(reference)
    swapped: dict[str, str] = {}
    for name, request, digest in _answers(comparison.results):
        other = owner.get(digest, request)
        if other != request:
            where = f"{request} in {name} as {other} in {reference.start.name}"
            swapped.setdefault(request, where)
    if not swapped:
        return
    first = next(iter(swapped.values()))
    count = f"{len(swapped)} requests were"
    if len(swapped) == 1:
        count = "1 request was"
    yield f"{count} answered as another is: {first}"


def _first_baseline(results: Iterable[StartResult]) -> StartResult | None:
    for result in results:
        if result.start.arm is Arm.BASELINE:
            return result
    return None


def _owners(reference: StartResult) -> dict[str, str]:
    """The request of each answer that the start gave to one request only."""
    requests: dict[str, set[str]] = {}
    for _, request, digest in _answers([reference]):
        requests.setdefault(digest, set()).add(request)
    owners = {}
    for digest, of in requests.items():
        # An answer such as "Yes" to two requests belongs to neither.
        if len(of) == 1:
            owners[digest] = min(of)
    return owners


def _answers(results: Iterable[StartResult]) -> Iterator[tuple[str, str, str]]:
    """ArmStart, request and digest of every answer."""
    for result in results:
        for request, passes in result.digests.items():
            for digest in passes.values():
                yield result.start.name, request, digest


def _hard_ones(comparison: _Comparison) -> Iterator[str]:
    """Whether the candidate's own differences are harder than those between baseline starts."""
    own: Counter[Hardness] = Counter()
    flaky: Counter[Hardness] = Counter()
    for difference in comparison.differences:
        hardness = difference.divergence.hardness
        if difference.kind is DifferenceKind.FLAKY:
            flaky[hardness] += 1
        else:
            own[hardness] += 1
    hard = own[Hardness.HARD]
    hard_flaky = flaky[Hardness.HARD]
    if not hard or not flaky:
        return
    own_total = own.total()
    flaky_total = flaky.total()
    # The shares are compared by cross-multiplication: exact, and no division by zero.
    if hard * flaky_total > hard_flaky * own_total:
        yield (
            f"{hard} of {own_total} differences of the candidate's own are hard, "
            f"against {hard_flaky} of {flaky_total} between baseline starts"
        )


def _arms(comparison: _Comparison) -> Iterator[str]:
    """Whether the clusters are the arms."""
    by_arm = groups_by_arm(comparison.groups)
    if len(comparison.groups) != 2 or len(by_arm) != 2:
        return
    if any(len(indexes) > 1 for indexes in by_arm.values()):
        return
    # One start of an arm agrees with itself in any case.
    if min(map(len, comparison.groups)) > 1:
        yield (
            "the clusters are the arms: each agrees with itself in every start, "
            "and with the other in none"
        )


def _facts(comparison: _Comparison) -> Iterator[str]:
    for fact, values in fact_differences(comparison.results).items():
        if lines_up(comparison.groups, values):
            yield f"{fact} lines up with the clusters: {_by_value(values)}"


def _by_value(values: Mapping[str, str]) -> str:
    """`12.4 in A1, 12.5 in B1 A2`."""
    names: dict[str, list[str]] = {}
    for name, value in values.items():
        of_value = names.setdefault(value, [])
        of_value.append(name)
    words = []
    for value, of_value in names.items():
        starts = " ".join(of_value)
        words.append(f"{value} in {starts}")
    return ", ".join(words)


def _caches(comparison: _Comparison) -> Iterator[str]:
    """Starts that filled the compile caches against starts that had them filled."""
    states = {}
    cold = []
    warm = []
    for result in comparison.results:
        name = result.start.name
        # None: nothing is known of its caches, so it is neither cold nor warm.
        if result.cached is None:
            continue
        if result.cached:
            states[name] = "cold"
            files = amount(result.cached, "file")
            cold.append(f"{name} added {files}")
        else:
            states[name] = "warm"
            warm.append(name)
    if not lines_up(comparison.groups, states):
        return
    added = _shortened(cold, 3, "more")
    others = " ".join(warm)
    yield f"cold and warm compile caches line up with the clusters: {added}; {others} none"


def _passes(comparison: _Comparison) -> Iterator[str]:
    """Batches and caches vary within a process, the choice of kernels between processes."""
    # Passes are compared byte for byte: for another gate they may all be the same.
    if not comparison.is_exact and not comparison.differences:
        return
    several = [result for result in comparison.results if repeated(result)]
    varying = []
    names = []
    for result in several:
        count = varying_requests(result)
        if count:
            varying.append(result)
            names.append(f"{count} in {result.start.name}")
    if varying:
        starts = _shortened(names, 4, "more starts")
        manner = ", as with batching or a cache"
        if _vary_alike(varying):
            manner = ", in each start in the same way: as with a cache that a later pass hits"
        yield f"answers differ between passes of one start ({starts}){manner}"
    elif several and _differ_within_an_arm(comparison.groups):
        yield (
            "each start repeats itself in all passes, starts differ: "
            "as with kernels chosen once per start"
        )


def _vary_alike(varying: Iterable[StartResult]) -> bool:
    """Whether each start has another of its arm that gave the same answers in the same passes."""
    by_arm: dict[Arm, list[StartResult]] = {}
    for result in varying:
        by_arm.setdefault(result.start.arm, []).append(result)
    for first, *others in by_arm.values():
        # One start alone cannot show that it repeats itself.
        if not others or any(other.digests != first.digests for other in others):
            return False
    return True


def _differ_within_an_arm(groups: Groups) -> bool:
    # Starts of two arms may differ for the change itself.
    return any(len(indexes) > 1 for indexes in groups_by_arm(groups).values())


def _shortened(words: Sequence[str], most: int, noun: str) -> str:
    """At most `most` words, and how many more there are."""
    shown = ", ".join(words[:most])
    more = len(words) - most
    if more > 0:
        return f"{shown} and {more} {noun}"
    return shown


def _beginning(comparison: _Comparison) -> Iterator[str]:
    """Whether the answers differ from the first position on, or in numbers alone."""
    total = len(comparison.differences)
    numbers = 0
    first = []
    later = 0
    for difference in comparison.differences:
        at = difference.divergence
        numbers += at.field == "logprobs"
        if at.position == 0:
            first.append(at)
        elif at.position is not None:
            later += 1
    if numbers and numbers == total:
        share = _share(numbers, total)
        yield f"in {share} only log-probabilities differ: every token is the same"
    elif len(first) > 1 and not later:
        share = _share(len(first), total)
        unit = first[0].unit
        yield f"{share} diverge at the first {unit}: nothing that was generated comes before"


def _rounding(comparison: _Comparison) -> Iterator[str]:
    total = len(comparison.differences)
    near = 0
    for difference in comparison.differences:
        near += difference.divergence.hardness is Hardness.NEAR_TIE
    # A few near-ties among harder differences explain nothing.
    if near and 2 * near >= total:
        yield (
            f"{_share(near, total)} diverge where two tokens are less than {NEAR_NAT:g} nat apart: "
            "rounding can flip them"
        )


def _share(some: int, total: int) -> str:
    # "all 1" would be odd: of a single difference both figures are given.
    if some == total and total > 1:
        return f"all {total}"
    return f"{some} of {total}"


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

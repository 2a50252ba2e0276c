# SPDX-License-Identifier: Apache-2.0
"""What lines up with the differences, as sentences with figures. Pure.

A sentence names a correlation in the data, never a cause.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from ci_doctor.correctness.report.clusters import (
    Groups,
    fact_differences,
    groups_by_arm,
    groups_of,
    lines_up,
    repeated,
    varying_requests,
)
from ci_doctor.correctness.report.differences import AnswerDifference, counted_results
from ci_doctor.correctness.report.hardness import NEAR_NAT, Hardness
from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.starts import DifferenceKind
from ci_doctor.render.formatting import amount


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

# SPDX-License-Identifier: Apache-2.0
"""Which starts answered alike, and what lines up with the differences, as sentences with figures. Pure.

A sentence names a correlation in the data, never a cause.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ci_doctor.correctness.report.differences import counted_results
from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import answering, clusters
from ci_doctor.correctness.verdict.starts import ArmStart
from ci_doctor.model.facts.correctness import AlignedAnswers
from ci_doctor.render.formatting import listed

# --- which starts answered alike, which differ from themselves, and what lines up with that ---

Groups = Sequence[Sequence[str]]


def groups_of(experiment: Experiment) -> Groups:
    """The names of the starts that answered everything alike, group by group."""
    # A1 before A2 before B1, and the archived a1 after A2.
    return [
        sorted(names, key=lambda name: (name[0].upper(), name[0].islower(), int(name[1:])))
        for names in clusters(answering(experiment.starts))
    ]


def differing(one: ArmStart, other: ArmStart) -> int:
    """How many requests two starts answered differently."""
    return sum(answer != other.answers.get(request) for request, answer in one.answers.items())


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


def suspects(experiment: Experiment, differences: Sequence[AlignedAnswers]) -> tuple[str, ...]:
    """Sentences about the differences, the most telling first.

    None if nothing differs and no start differs from itself.
    """
    results = [result for result in counted_results(experiment) if result.start.answered]
    groups = groups_of(experiment)
    # Passes are compared byte for byte: for another gate they may all be the same.
    is_told_of_passes = experiment.comparison.is_exact or differences
    return (
        *_swapped(results),
        *_facts(results, groups),
        *(_passes(results, groups) if is_told_of_passes else ()),
    )


def _swapped(results: Sequence[StartResult]) -> Iterator[str]:
    """Answers that are another request's in the first baseline start."""
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


def _facts(results: Sequence[StartResult], groups: Groups) -> Iterator[str]:
    for fact, values in fact_differences(results).items():
        if lines_up(groups, values):
            names: dict[str, list[str]] = {}
            for name, value in values.items():
                names.setdefault(value, []).append(name)
            # `12.4 in A1, 12.5 in B1 A2`
            words = ", ".join(f"{value} in {' '.join(each)}" for value, each in names.items())
            yield f"{fact} lines up with the clusters: {words}"


def _passes(results: Sequence[StartResult], groups: Groups) -> Iterator[str]:
    """Batches and caches vary within a process, the choice of kernels between processes."""
    several = [result for result in results if repeated(result)]
    varying = [result for result in several if varying_requests(result)]
    if varying:
        names = [f"{varying_requests(result)} in {result.start.name}" for result in varying]
        yield (
            f"answers differ between passes of one start ({listed(names, 4)}), as with batching or "
            "a cache that a later pass hits"
        )
    # Starts of two arms may differ for the change itself.
    elif several and any(
        # `a1` is an archived start of arm A.
        sum(any(name[0].upper() == arm.letter for name in group) for group in groups) > 1
        for arm in Arm
    ):
        yield (
            "each start repeats itself in all passes, starts differ: "
            "as with kernels chosen once per start"
        )

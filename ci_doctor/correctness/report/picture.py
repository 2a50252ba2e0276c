# SPDX-License-Identifier: Apache-2.0
"""Reads answers whose numbers differ: the verdict at each level. And the picture of an experiment for people, from its facts."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from ci_doctor.correctness import rules
from ci_doctor.correctness.report.differences import counted_results, look_up
from ci_doctor.correctness.report.findings import (
    REGIONS,
    Context,
    replay_command,
    telling_differences,
)
from ci_doctor.correctness.results import Experiment, ExperimentEnding
from ci_doctor.correctness.settings import AnswerLevel, Arm, Policy, Rules
from ci_doctor.correctness.verdict.compare import counted
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.correctness.verdict.starts import ArmStart, DifferenceKind, outcomes
from ci_doctor.correctness.verdict.validity import Decision
from ci_doctor.load.answer_items import AnswerParts, parts, ulp_distance
from ci_doctor.load.canonical import encode
from ci_doctor.load.prompts import parameters_of
from ci_doctor.model.facts.correctness import (
    AlignedAnswers,
    AlteredAnswer,
    AnswerFacts,
    CorrectnessFacts,
    Hardness,
    LevelFacts,
    PromptRegion,
    SensitivityFacts,
    SharedUse,
    StartColumn,
)
from ci_doctor.model.outcome import Finding, Row, Table, Verdict, is_green, row, text_table
from ci_doctor.render.formatting import amount, listed
from ci_doctor.render.layout import table_lines

# A terminal shows 24 lines of 80 cells, and a Buildkite annotation about as much before it scrolls.
# With its title and the headline the picture must fit.
_LINES = 19
_WIDTH = 80
_SUSPECTS = 3
_NAMED = 4
_GROUPS = 5


def tables(
    facts: AnswerFacts,
    decision: Decision,
    differences: Sequence[AlignedAnswers],
    context: Context,
    *,
    is_exact: bool = True,
    sources: Iterable[Row] = (),
) -> Iterator[Table]:
    """The evidence: who answered, what differs, of what kind, how sure it is, what to do next.

    At most 20 lines of 80 cells with its title. If there is more, suspects are left out first. Below
    it stands the mix of answers that carries a regression.
    `is_exact`: the gate compares byte for byte.
    """
    if not facts.matrix.starts:
        return
    before = [
        *sources,
        *_start_rows(facts),
        *_request_rows(facts),
        *_difference_rows(facts, differences, context, is_exact=is_exact),
    ]
    after = [*_certainty(facts), *_next(decision, differences, context)]
    table = Table(title="Evidence", rows=(*before, *after))
    for index, sentence in enumerate(facts.suspects[:_SUSPECTS]):
        before.append(row("" if index else "suspects", sentence))
        larger = Table(title="Evidence", rows=(*before, *after))
        if len(table_lines(larger, _WIDTH)) > _LINES:
            break
        table = larger
    yield table
    yield from _mix_tables(facts, decision)


# --- starts, and which of them answered alike ---


def _start_rows(facts: AnswerFacts) -> Iterator[Row]:
    starts = facts.matrix.starts
    today = {
        arm: [each.name for each in starts if each.arm == arm and not each.archived] for arm in Arm
    }
    words = " | ".join(_span(names) or "none" for names in today.values())
    if facts.archived:
        archived = _span([each.name for each in starts if each.archived])
        builds = amount(facts.archived.builds, "build")
        words = f"{words}   archived {archived} of {builds}"
        if facts.archived.drift:
            # Their answers are in no figure below: without the reason they would seem forgotten.
            words = f"{words}, set aside: today's baseline answers otherwise"
    yield row("starts", words)
    yield row("answered", _answered(starts, facts.requests))
    if parts := [f"{each.name} {each.in_part}" for each in starts if each.in_part]:
        yield row("in part", f"{listed(parts, _NAMED)}: not in all passes, so left out")
    groups = [f"{{{_span(names)}}}" for names in facts.clusters]
    # One alone says no more than that nothing differs.
    if len(groups) > 1:
        more = f"  and {len(groups) - _GROUPS} more" if len(groups) > _GROUPS else ""
        yield row("clusters", f"{'  '.join(groups[:_GROUPS])}{more}")


def _answered(starts: Sequence[StartColumn], total: int) -> str:
    counts = {each.answered for each in starts}
    if len(counts) == 1:
        return f"{counts.pop()}/{total} each"
    less = [f"{each.name} {each.answered}/{total}" for each in starts if each.answered != total]
    words = listed(less, _NAMED)
    # If no start answered everything, there are no others.
    return f"{words}, the others all" if total in counts else words


def _span(names: Sequence[str]) -> str:
    """`A1 A2 A3`, or `A1-A8` for many in a row."""
    whole = " ".join(names)
    if len(names) <= _NAMED + 1:
        return whole
    letter, first = names[0][0], int(names[0][1:])
    last = first + len(names) - 1
    # With a gap in the numbers, or with both arms, a span would name starts that are not there.
    is_row = whole == " ".join(f"{letter}{number}" for number in range(first, last + 1))
    return f"{letter}{first}-{letter}{last}" if is_row else whole


# --- how many requests differ, between which starts, and of what kind ---


def _request_rows(facts: AnswerFacts) -> Iterator[Row]:
    # `A/A 1 to 3`: the least and the most requests that differ, between the starts of two arms.
    counts: dict[str, list[int]] = {"A/A": [], "A/B": [], "B/B": []}
    for names, count in facts.differing.items():
        arms = "/".join(sorted(name[0].upper() for name in names.split("/")))
        counts[arms].append(count)
    words = [f"{arms} {_range(each)}" for arms, each in counts.items() if each]
    if words:
        yield row("differing", f"{'   '.join(words)}   of {facts.requests} requests")
    # A candidate that died at once has changed nothing that was compared.
    if not counts["A/B"] and all(facts.starts.get(arm) for arm in Arm):
        nothing = "none in all passes" if _in_part(facts) else "nothing"
        yield row("requests", f"none was compared: an arm has answered {nothing}")
    elif facts.kinds[DifferenceKind.EQUAL] < sum(facts.kinds.values()):
        yield row("requests", ", ".join(_kind_counts(facts)))


def _in_part(facts: AnswerFacts) -> bool:
    """Whether a start has answered a request in some passes and not in all."""
    return any(each.in_part for each in facts.matrix.starts)


def _range(counts: Sequence[int]) -> str:
    least, most = min(counts), max(counts)
    return str(least) if least == most else f"{least} to {most}"


def _kind_counts(facts: AnswerFacts) -> Iterator[str]:
    stable = (DifferenceKind.EQUAL, DifferenceKind.CHANGED, DifferenceKind.SOMETIMES)
    varying = (DifferenceKind.FLAKY, DifferenceKind.OWN)
    for word, kinds in (("stable", stable), ("varying", varying)):
        counts = {kind: facts.kinds[kind] for kind in kinds if facts.kinds[kind]}
        if counts:
            parts = ", ".join(f"{count} {kind}" for kind, count in counts.items())
            yield f"{sum(counts.values())} {word} ({parts})"
    if unanswered := facts.kinds[DifferenceKind.UNANSWERED]:
        yield f"{unanswered} unanswered"
    # Disputed requests are a choice of those above: they come last, and add nothing to the total.
    if facts.test:
        yield f"{len(facts.test.disputed)} disputed"


# --- the differences: their kind, their position, and passes of one start ---


def _difference_rows(
    facts: AnswerFacts, differences: Sequence[AlignedAnswers], context: Context, *, is_exact: bool
) -> Iterator[Row]:
    if differences:
        names = {each.request for each in differences}
        # Whoever asked for them has a server that gave none.
        asked = [
            parameters_of(each).get("logprobs") for each in context.requests if each.id in names
        ]
        # By identity: 0 asks for those of the chosen tokens, and is equal to False.
        have_asked = any(value is not None and value is not False for value in asked)
        counts = {kind: facts.differences_by[kind] for kind in Hardness}
        text = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        if counts[Hardness.UNKNOWN] == len(differences) and not have_asked:
            text = f"{text}: with `logprobs` a request tells rounding from a fault"
        yield row("kind", text)
    if facts.divergence:
        at = facts.divergence
        spread = f"{at.min} to {at.max}, median {at.median}" if at.min != at.max else at.min
        yield row("first at", f"{at.unit} {spread}")
    if any(facts.within.values()):
        # The gate may hold them for the same.
        exactly = "" if is_exact else ", byte for byte"
        inside = listed([f"{name} {count}" for name, count in facts.within.items() if count], 4)
        yield row("passes", f"requests that differ inside a start{exactly}: {inside}")
    elif facts.within and differences:
        yield row("passes", "no request differs inside a start")


# --- how sure it is, and what to do next ---


def _certainty(facts: AnswerFacts) -> Iterator[Row]:
    if test := facts.test:
        best = f"at best {test.smallest_p:.3g} with {test.labelings} labelings"
        yield row("test", f"p {test.p:.3g}, {best}; level {test.level:.3g}")
    if facts.risk:
        yield row("risk", facts.risk)


def _next(
    decision: Decision, differences: Sequence[AlignedAnswers], context: Context
) -> Iterator[Row]:
    if decision.settle:
        yield row("to go on", decision.settle)
    if context.run and (shown := telling_differences(decision, differences)):
        yield row("next", f"`{replay_command(shown[0], context)}`")


_REQUESTS = 3
_ANSWERS = 4


def _mix_tables(facts: AnswerFacts, decision: Decision) -> Iterator[Table]:
    """How often each arm gave each answer, for the requests that carry a regression."""
    if decision.verdict is not Verdict.REGRESSION or facts.test is None:
        return
    groups: dict[str, list[int]] = {str(arm): [] for arm in Arm}
    for place, start in enumerate(facts.matrix.starts):
        groups.setdefault("archived" if start.archived else start.arm, []).append(place)
    classes = {each.id: each.classes for each in facts.matrix.requests}
    requests = [each for each in facts.test.disputed[:_REQUESTS] if each in classes]
    missing = "not in all passes" if _in_part(facts) else "no answer"
    rows = tuple(
        _mix_row(request, classes[request], groups.values(), missing) for request in requests
    )
    if rows:
        yield Table(title="Mix of answers", columns=tuple(groups), rows=rows)


def _mix_row(
    request: str, classes: Sequence[int | None], groups: Iterable[Sequence[int]], missing: str
) -> Row:
    """`r12  a 5, b 0  a 0, b 5`: the letters are the request's answers, the baseline's first.

    `missing` names an answer that is not there.
    """
    given = [[classes[place] for place in group] for group in groups]
    everyone = [each for group in given for each in group]
    # Named in order of appearance, group by group; the most frequent are shown.
    names: dict[int | None, str] = {}
    for each in everyone:
        if each is not None and each not in names:
            names[each] = _letter(sum(other is not None for other in names))
        names.setdefault(each, missing)
    common = {each for each, _ in Counter(everyone).most_common(_ANSWERS)}
    cells = []
    for group in given:
        counts = Counter(group)
        words = [f"{name} {counts[each]}" for each, name in names.items() if each in common]
        others = sum(count for each, count in counts.items() if each not in common)
        if others:
            words.append(f"others {others}")
        cells.append(", ".join(words))
    return row(request, *cells)


def _letter(number: int) -> str:
    """`a` for the first answer, `b` for the next; `#27` after `z`."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return letters[number] if number < len(letters) else f"#{number + 1}"


def order_tables(names: Sequence[str], rules: Rules) -> Iterator[Table]:
    """The order of the starts that count, and the seed that draws it again."""
    # The policy `any` draws nothing.
    if names and rules.policy is not Policy.ANY:
        line = (
            f"{' '.join(names)}, drawn with seed {rules.seed}: --seed {rules.seed} draws it again"
        )
        yield Table(title="Order", rows=(Row(label=line),), is_aside=True, is_detail=True)


# Of the files that changed, so many are named; the facts have more.
_FILES = 3
_NO_CONTROL = "off (control = false): nothing shows that the servers read their prompts"


def start_tables(facts: CorrectnessFacts, *, control: bool) -> Iterator[Table]:
    """What starts show beside their answers: devices, proof, shared files, the `control` if wanted."""
    places: dict[str, list[str]] = {}
    for each in facts.devices:
        places.setdefault(each.devices, []).append(each.start)
    if places:
        rows = tuple(row(place, " ".join(names)) for place, names in sorted(places.items()))
        yield Table(title="Devices", columns=("starts",), rows=rows, is_aside=True)
    if facts.proof:
        rows = tuple(
            row(each.start, each.service, each.subject, each.in_words()) for each in facts.proof
        )
        yield Table(title="Proof", columns=("service", "proof", "read"), rows=rows)
    yield from _file_tables(facts.shared)
    if not control:
        yield text_table("Control", (_NO_CONTROL,))
    elif facts.control:
        rows = tuple(row(each.start, each.in_words()) for each in facts.control)
        yield Table(title="Control", columns=("what it showed",), rows=rows, is_detail=True)
    if facts.sensitivity:
        yield _sensitivity_table(facts.sensitivity)


# So many requests are named.
_LEAST = 30


def unchanged(altered: Sequence[AlteredAnswer]) -> dict[str, dict[PromptRegion, str]]:
    """What changed for each request, by region; those that show the least come first."""
    cells: dict[str, dict[PromptRegion, str]] = {}
    weight: Counter[str] = Counter()
    for one in altered:
        level = "words" if one.words else "numbers" if one.tokens or one.numbers else "nothing"
        cells.setdefault(one.request, {})[one.region] = level
        weight[one.request] += 2 * one.words + one.numbers
    return {name: cells[name] for name in sorted(cells, key=weight.__getitem__)[:_LEAST]}


def _sensitivity_table(facts: Sequence[SensitivityFacts]) -> Table:
    """The share of answers that one other word changes; in one column if their numbers tell no more."""
    columns = {"words": "words changed", "numbers": "words or numbers changed"}
    shares = {(each.region, each.level): share_in_words(each) for each in facts}
    regions = tuple(dict.fromkeys(each.region for each in facts))
    if all(shares.get((each, "words")) == shares.get((each, "numbers")) for each in regions):
        columns = {"numbers": "answers changed"}
    return Table(
        title="What one other word changes",
        columns=tuple(columns.values()),
        rows=tuple(
            row(REGIONS[region], *(shares.get((region, level), "-") for level in columns))
            for region in regions
        ),
        is_aside=True,
        is_detail=True,
    )


def share_in_words(facts: SensitivityFacts) -> str:
    """`2 of 8 (3 to 66 %)`: the share, and its 95 % limits."""
    low, high = math.floor(facts.low * 100), math.ceil(facts.high * 100)
    return f"{facts.changed} of {facts.answers} ({low} to {high} %)"


def _file_tables(uses: Sequence[SharedUse]) -> Iterator[Table]:
    if shared := tuple(_shared_rows(uses)):
        yield Table(title="Shared files", rows=shared)
    if changed := tuple(_changed_rows(uses)):
        yield Table(title="Changed files", rows=changed, is_detail=True)


def _shared_rows(uses: Sequence[SharedUse]) -> Iterator[Row]:
    """What starts read of the other arm, and what of that may have been missed."""
    unseen: dict[str, list[str]] = {}
    for use in uses:
        for read in use.read:
            yield row(use.start, f"read {read.path}, which changed while {read.writer} ran")
        for reason in use.unseen:
            unseen.setdefault(reason, []).append(use.start)
    for reason, names in unseen.items():
        yield row(" ".join(names), f"may have read more: {reason}")


def _changed_rows(uses: Sequence[SharedUse]) -> Iterator[Row]:
    """What changed while starts ran: by name what is theirs, and how much belongs to nobody known."""
    own = list(dict.fromkeys(path for use in uses for path in use.own))
    written = {path for use in uses for path in use.written}
    # A start names some of its files.
    count = max([len(written), *(use.count for use in uses)])
    if own:
        more = f", and {len(own) - _FILES} more" if len(own) > _FILES else ""
        yield row("in their folders", ", ".join(own[:_FILES]) + more)
    if others := count - len(own):
        yield row("owner unknown", f"{amount(others, 'file')} in places that other programs use")


# --- how far the numbers of answers lie apart where their words and tokens are the same ---

# Where a number stands: its place, and of an alternative also its token.
_Place = tuple[int, str | None]


class NumberSpread(NamedTuple):
    """The largest distances of two numbers, which need not be those of one pair.

    `nat` is absolute for vectors and scores, `ulp` counts units in the last place of float32.
    """

    nat: float = 0.0
    ulp: int = 0


def number_spread(outputs: Iterable[Mapping[str, Any]]) -> NumberSpread | None:
    """The spread of the numbers of answers to one request.

    Only answers with the same words and tokens are held beside each other; an alternative that some
    of them do not list counts among the others. None if no two of them have a number in common.
    """
    ranges: dict[bytes, dict[_Place, tuple[float, float]]] = {}
    is_compared = False
    for output in outputs:
        divided = parts(output)
        key = encode([divided.words, divided.tokens])
        is_compared |= key in ranges and bool(divided.numbers or divided.alternatives)
        of_these = ranges.setdefault(key, {})
        for place, number in _placed(divided):
            least, most = of_these.get(place, (number, number))
            of_these[place] = min(least, number), max(most, number)
    if not is_compared:
        return None
    pairs = [pair for each in ranges.values() for pair in each.values()]
    return NumberSpread(
        nat=max((most - least for least, most in pairs), default=0.0),
        ulp=max((ulp_distance(least, most) for least, most in pairs), default=0),
    )


def _placed(divided: AnswerParts) -> Iterator[tuple[_Place, float]]:
    for index, number in enumerate(divided.numbers):
        yield (index, None), number
    for index, alternatives in enumerate(divided.alternatives):
        for token, number in alternatives.items():
            yield (index, token), number


def spread_of_requests(experiment: Experiment, requests: Sequence[str]) -> NumberSpread | None:
    """The largest spread of these requests over all starts that count; None if none has numbers."""
    spreads = []
    for request in requests:
        # A dict, and not a set: the order of the starts.
        digests: dict[str, None] = {}
        for result in counted_results(experiment):
            digests.update(dict.fromkeys(result.digests.get(request, {}).values()))
        # One that can no longer be read is left out.
        found = (look_up(experiment.outputs, digest) for digest in digests)
        spread = number_spread(output for output in found if output is not None)
        if spread is not None:
            spreads.append(spread)
    if not spreads:
        return None
    return NumberSpread(max(each.nat for each in spreads), max(each.ulp for each in spreads))


# --- the verdict at each level over the starts of one run, for people and for programs ---

# Of so many differing requests the numbers are read again.
MOST_READ = 50
# The others rest on something else than answers, and are the same at each level.
_ON_ANSWERS = {
    Verdict.PASS,
    Verdict.FLAKY,
    Verdict.REGRESSION,
    Verdict.NONDETERMINISTIC,
    Verdict.INCONCLUSIVE,
}


def level_facts(
    experiment: Experiment, decision: Decision, requests: Sequence[str]
) -> tuple[LevelFacts, ...]:
    """A verdict for each level, words first; empty if the gate's verdict rests on no answers.

    Only the gate's decides, and only for it do the starts go on until it is reached.
    """
    if decision.verdict not in _ON_ANSWERS:
        return ()
    return tuple(_of_level(level, experiment, decision, requests) for level in AnswerLevel)


def _of_level(
    level: AnswerLevel, experiment: Experiment, decision: Decision, requests: Sequence[str]
) -> LevelFacts:
    limit = experiment.comparison.limit
    is_gate = level is experiment.comparison.level
    starts = experiment.starts if is_gate else _at(level, experiment.starts)
    differing = _differing(starts, requests)
    verdict = decision.verdict
    # What is equal at a finer level is equal here; a policy may have let something else pass.
    if not is_gate and (verdict is not Verdict.PASS or differing):
        complete = experiment.ending is ExperimentEnding.COMPLETE
        verdict = decide(starts, requests, experiment.rules, complete=complete).verdict
    facts = LevelFacts(
        level=str(level), gate=is_gate, verdict=str(verdict), differing=len(differing)
    )
    if level is not AnswerLevel.NUMBERS:
        return facts
    # Within a limit no request may differ, and the numbers still do.
    apart = differing
    if limit is not None:
        apart = _differing(_at(level, experiment.starts), requests)
    read = apart[:MOST_READ]
    largest = spread_of_requests(experiment, read)
    return replace(
        facts,
        limit=str(limit) if limit else None,
        largest_nat=largest.nat if largest else None,
        largest_ulp=largest.ulp if largest else None,
        read=len(read),
        apart=len(apart),
    )


def _at(level: AnswerLevel, starts: Sequence[ArmStart]) -> list[ArmStart]:
    """The starts whose outcomes at a level are known, with these as their answers."""
    known = [start for start in starts if level in start.levels]
    return [replace(start, answers=start.levels[level]) for start in known]


def _differing(starts: Sequence[ArmStart], requests: Sequence[str]) -> list[str]:
    usable = counted(starts)
    return [request for request in requests if len(outcomes(usable, request)) > 1]


def level_findings(facts: Sequence[LevelFacts]) -> Iterator[Finding]:
    """A note if an exact gate is not green for numbers alone: how far they lie apart, what to do.

    A run with a limit names how far they may.
    """
    by_level = {each.level: each for each in facts}
    numbers = by_level.get(AnswerLevel.NUMBERS)
    if numbers is None or not numbers.gate or numbers.limit or numbers.largest_nat is None:
        return
    # Vectors and scores have no words and tokens: there they differ at each level.
    if not is_green(numbers.verdict) and not by_level[AnswerLevel.TOKENS].differing:
        yield rules.NUMBERS_ALONE.finding(
            f"all words and tokens are the same; numbers lie {_largest(numbers)} apart at most",
            remedy=rules.NUMBERS_ALONE.remedy,
        )


def level_tables(facts: Sequence[LevelFacts]) -> Iterator[Table]:
    """A row for each level; no table if all levels show the same, and the finest is the gate."""
    is_default = any(each.gate and each.level == AnswerLevel.NUMBERS for each in facts)
    is_plain = is_default and not any(each.limit for each in facts)
    if len({(each.verdict, each.differing) for each in facts}) < 2 and (is_plain or not facts):
        return
    rows = []
    for each in facts:
        label = f"{each.level} within {each.limit}" if each.limit else each.level
        verdict = f"{each.verdict}, the gate" if each.gate else each.verdict
        rows.append(row(label, verdict, each.differing, _largest(each)))
    columns = ("verdict", "differing", "numbers apart")
    yield Table(title="Levels", columns=columns, rows=tuple(rows), is_detail=True)


def _largest(facts: LevelFacts) -> str:
    """`2.9e-06 nat, 5 ulp`, and of how many requests that is if not of all."""
    if facts.largest_nat is None:
        return ""
    text = f"{facts.largest_nat:.2g} nat, {facts.largest_ulp} ulp"
    if facts.read < facts.apart:
        return f"{text} (in {facts.read} of {facts.apart} requests)"
    return text

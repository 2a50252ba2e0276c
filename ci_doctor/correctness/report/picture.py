# SPDX-License-Identifier: Apache-2.0
"""The picture of an experiment for people, in the order of their questions, and how sure it is. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from statistics import median_low

from ci_doctor.correctness.report.differences import AnswerDifference, positions_of
from ci_doctor.correctness.report.findings import Context, replay_command
from ci_doctor.correctness.report.suspects import (
    answer_classes,
    differing,
    groups_of,
    suspects,
    within,
)
from ci_doctor.correctness.report.tokens import Hardness
from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.settings import Arm, Policy, Rules
from ci_doctor.correctness.verdict.compare import answering, counted
from ci_doctor.correctness.verdict.decision import (
    Decision,
)
from ci_doctor.correctness.verdict.starts import (
    ArmStart,
    DifferenceKind,
    independent_builds,
    of_arm,
)
from ci_doctor.model.facts.correctness import InterimLook, PermutationTest, RequestBound
from ci_doctor.model.table import Row, Table, row, text_table
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.formatting import amount, probability, whole_percent_up
from ci_doctor.render.layout import table_lines

# --- the rows of the picture about differences: their kind, their position, and passes ---

_NAMED = 4
_EXACT_ULP = 100_000


def difference_rows(
    experiment: Experiment, differences: Sequence[AnswerDifference]
) -> Iterator[Row]:
    """What kind the differences are, where the first is, and whether passes of a start differ."""
    if differences:
        yield row("kind", _hardness_counts(differences))
    unit, positions = positions_of(differences)
    if positions:
        yield row("first at", f"{unit} {_position_spread(positions)}{_drift(differences)}")
    inside = within(experiment)
    if any(inside.values()):
        # The gate may hold them for the same.
        exactly = "" if experiment.comparison.is_exact else ", byte for byte"
        yield row("passes", f"requests that differ inside a start{exactly}: {_varying(inside)}")
    elif inside and differences:
        yield row("passes", "no request differs inside a start")


def _varying(inside: Mapping[str, int]) -> str:
    varying = []
    for name, count in inside.items():
        if count:
            word = f"{name} {count}"
            varying.append(word)
    shown = ", ".join(varying[:_NAMED])
    more = len(varying) - _NAMED
    if more > 0:
        return f"{shown} and {more} more starts"
    return shown


def _hardness_counts(differences: Sequence[AnswerDifference]) -> str:
    counts = Counter(difference.divergence.hardness for difference in differences)
    words = []
    for kind in Hardness:
        if counts[kind]:
            count = f"{counts[kind]} {kind}"
            words.append(count)
    text = ", ".join(words)
    if counts[Hardness.UNKNOWN] == len(differences):
        return f"{text}: with `logprobs` a request tells rounding from a fault"
    return text


def _position_spread(positions: Sequence[int]) -> str:
    first = positions[0]
    last = positions[-1]
    if first == last:
        return str(first)
    # `median_low`: a position that some answer has, and not the middle between two.
    median = median_low(positions)
    return f"{first} to {last}, median {median}"


def _drift(differences: Sequence[AnswerDifference]) -> str:
    """How far log-probabilities differed before the answers did: a sign that rounding adds up."""
    distances = []
    for difference in differences:
        at = difference.divergence
        # If numbers alone differ, `ulp` is the difference itself and not what came before it.
        if at.ulp is not None and at.hardness is not Hardness.NUMBERS:
            distances.append(at.ulp)
    if not distances:
        return ""
    return f"; log-probabilities up to {_steps(max(distances))} ULP apart before"


def _steps(ulp: int) -> str:
    """`3`, `6.3 million`: a large distance needs no digits."""
    return str(ulp) if ulp < _EXACT_ULP else f"{ulp / 1e6:.1f} million"


# --- the rows of the picture about starts, and about how many requests differ between them ---

_STABLE = (DifferenceKind.EQUAL, DifferenceKind.CHANGED, DifferenceKind.SOMETIMES)
_VARYING = (DifferenceKind.FLAKY, DifferenceKind.OWN)
_GROUP_CELLS = 50


def start_rows(experiment: Experiment) -> Iterator[Row]:
    """Which starts there are, whether they answered, and which of them answered alike."""
    starts = experiment.starts
    yield row("starts", _starts(starts))
    yield row("answered", _answered(starts))
    groups = []
    for names in groups_of(experiment):
        span = _span(names)
        groups.append(f"{{{span}}}")
    if groups:
        yield row("clusters", _fitting(groups))


def _starts(starts: Sequence[ArmStart]) -> str:
    words = " | ".join(_arm_words(starts))
    archived = [start.name for start in starts if start.archived]
    builds = amount(independent_builds(starts), "build")
    if not archived:
        return words
    words = f"{words}   archived {_span(archived)} of {builds}"
    if _set_aside(starts):
        # Their answers are in no figure below: without the reason they would seem forgotten.
        words = f"{words}, set aside: today's baseline answers otherwise"
    return words


def _arm_words(starts: Sequence[ArmStart]) -> list[str]:
    """The names of today's starts, arm by arm."""
    today = [start for start in starts if not start.archived]
    words = []
    for arm in Arm:
        names = [start.name for start in of_arm(today, arm)]
        words.append(_span(names) or "none")
    return words


def _set_aside(starts: Sequence[ArmStart]) -> bool:
    """Whether the archived starts do not count."""
    usable = sum(not start.outside for start in starts)
    return len(counted(starts)) < usable


def _answered(starts: Sequence[ArmStart]) -> str:
    total = max(len(start.answers) for start in starts)
    counts = {start.answered for start in starts}
    if len(counts) == 1:
        common = counts.pop()
        return f"{common}/{total} each"
    words = _incomplete(starts, total)
    # If no start answered everything, there are no others.
    if total in counts:
        return f"{words}, the others all"
    return words


def _incomplete(starts: Sequence[ArmStart], total: int) -> str:
    """The starts that answered less than everything, at most _NAMED by name."""
    less = []
    for start in starts:
        answered = start.answered
        if answered < total:
            share = f"{start.name} {answered}/{total}"
            less.append(share)
    words = ", ".join(less[:_NAMED])
    more = len(less) - _NAMED
    if more > 0:
        return f"{words}, {more} more starts less"
    return words


def _span(names: Sequence[str]) -> str:
    """`A1 A2 A3`, or `A1-A8` for many in a row."""
    whole = " ".join(names)
    if len(names) <= _NAMED + 1:
        return whole
    letter = names[0][0]
    first = int(names[0][1:])
    last = first + len(names) - 1
    numbers = range(first, last + 1)
    row = " ".join(f"{letter}{number}" for number in numbers)
    # With a gap in the numbers, or with both arms, a span would name starts that are not there.
    if whole != row:
        return whole
    return f"{letter}{first}-{letter}{last}"


def _fitting(groups: Sequence[str]) -> str:
    """As many groups as fit on a line, at least one, and how many more there are."""
    shown = groups[0]
    for number, group in enumerate(groups[1:], start=1):
        longer = f"{shown}  {group}"
        if len(longer) + 2 > _GROUP_CELLS:
            return f"{shown}  and {len(groups) - number} more"
        shown = longer
    return shown


def request_rows(starts: Sequence[ArmStart], decision: Decision) -> Iterator[Row]:
    """How many requests differ, between which starts, and of what kind they are."""
    counts = _differing_counts(answering(starts))
    if counts:
        total = len(decision.kinds) or len(starts[0].answers)
        yield row("differing", f"{'   '.join(counts)}   of {total} requests")
    kinds = _kind_counts(decision)
    if kinds:
        yield row("requests", ", ".join(kinds))


def _differing_counts(starts: Sequence[ArmStart]) -> list[str]:
    """`A/A 1 to 3`: the least and the most requests that differ, between the starts of two arms."""
    baseline = of_arm(starts, Arm.BASELINE)
    candidate = of_arm(starts, Arm.CANDIDATE)
    words = [
        _spread("A/A", combinations(baseline, 2)),
        _spread("A/B", product(baseline, candidate)),
        _spread("B/B", combinations(candidate, 2)),
    ]
    return [word for word in words if word]


def _spread(arms: str, pairs: Iterable[tuple[ArmStart, ArmStart]]) -> str:
    counts = [differing(one, other) for one, other in pairs]
    if not counts:
        return ""
    least = min(counts)
    most = max(counts)
    if least == most:
        return f"{arms} {least}"
    return f"{arms} {least} to {most}"


def _kind_counts(decision: Decision) -> list[str]:
    words = []
    for word, kinds in (("stable", _STABLE), ("varying", _VARYING)):
        parts = _parts(decision, kinds)
        if parts:
            total = decision.count(*kinds)
            words.append(f"{total} {word} ({parts})")
    unanswered = decision.count(DifferenceKind.UNANSWERED)
    if unanswered:
        words.append(f"{unanswered} unanswered")
    # Disputed requests are a choice of those above: they come last, and add nothing to the total.
    if decision.test:
        disputed = len(decision.test.disputed)
        words.append(f"{disputed} disputed")
    return words


def _parts(decision: Decision, kinds: Sequence[DifferenceKind]) -> str:
    parts = []
    for kind in kinds:
        count = decision.count(kind)
        if count:
            part = f"{count} {kind}"
            parts.append(part)
    return ", ".join(parts)


# --- how sure a verdict is, as tables: the mix of answers, the looks, the order, the risk ---

_REQUESTS = 3
_ANSWERS = 4
_BOUNDS = 5
_NO_ANSWER = "no answer"


def certainty_tables(starts: Sequence[ArmStart], decision: Decision) -> tuple[Table, ...]:
    """The mix of answers that carries a regression, then the looks, then the risk by request."""
    return (*_mix_tables(starts, decision), *_look_tables(decision), *_risk_tables(decision))


# --- the mix of answers ---


def _mix_tables(starts: Sequence[ArmStart], decision: Decision) -> Iterator[Table]:
    """How often each arm gave each answer, for the requests that carry a regression."""
    if decision.verdict is not Verdict.REGRESSION or decision.test is None:
        return
    rows = []
    for request in decision.test.disputed[:_REQUESTS]:
        rows.append(_mix_row(request, starts))  # noqa: PERF401 - one thought a line
    if rows:
        yield Table(title="Mix of answers", columns=_arms(starts), rows=tuple(rows))


def _arms(starts: Sequence[ArmStart]) -> tuple[str, ...]:
    names = [str(arm) for arm in Arm]
    if any(start.archived for start in starts):
        names.append("archived")
    return tuple(names)


def _mix_row(request: str, starts: Sequence[ArmStart]) -> Row:
    """`r12  a 5, b 0  a 0, b 5`: the letters are the request's answers, the baseline's first."""
    today = [start for start in starts if not start.archived]
    groups = [of_arm(today, arm) for arm in Arm]
    archived = [start for start in starts if start.archived]
    if archived:
        groups.append(archived)
    everyone = [start for group in groups for start in group]
    answers = [start.answers.get(request) for start in everyone]
    names = [_name(number) for number in answer_classes(answers)]
    shown = _shown_names(names)
    cells = []
    begin = 0
    for group in groups:
        end = begin + len(group)
        cells.append(_counts(names[begin:end], shown))
        begin = end
    return row(request, *cells)


def _name(number: int | None) -> str:
    """`a` for the first answer, `b` for the next; `#27` after `z`."""
    if number is None:
        return _NO_ANSWER
    letters = "abcdefghijklmnopqrstuvwxyz"
    return letters[number] if number < len(letters) else f"#{number + 1}"


def _shown_names(names: Sequence[str]) -> list[str]:
    """The most frequent answers, in the order in which they appear."""
    common = {name for name, _ in Counter(names).most_common(_ANSWERS)}
    return [name for name in dict.fromkeys(names) if name in common]


def _counts(names: Sequence[str], shown: Sequence[str]) -> str:
    counts = Counter(names)
    words = [f"{name} {counts[name]}" for name in shown]
    others = len(names) - sum(counts[name] for name in shown)
    if others:
        words.append(f"others {others}")
    return ", ".join(words)


# --- the looks ---


def _look_tables(decision: Decision) -> Iterator[Table]:
    """Every look that was made, or is still to come; no table without a look."""
    test = decision.test
    if test is None or not test.looks:
        return
    rows = tuple(_look_rows(test))
    columns = ("starts", "p", "declared at", "decision")
    yield Table(title="Looks", columns=columns, rows=rows, is_aside=True)


def _look_rows(test: PermutationTest) -> Iterator[Row]:
    for number, look in enumerate(test.looks, start=1):
        p = None if look.p is None else probability(look.p)
        limit = probability(look.limit)
        yield row(f"look {number}", look.starts, p, limit, _decision(look))


def _decision(look: InterimLook) -> str:
    if look.p is None:
        return "not made"
    return "regression" if look.p <= look.limit else "no regression yet"


# --- the order ---


def order_tables(results: Sequence[StartResult], rules: Rules) -> Iterator[Table]:
    """The order of the starts that count, and the seed that draws it again."""
    names = [result.start.name for result in results if result.counts]
    # The policy `any` draws nothing.
    if not names or rules.policy is Policy.ANY:
        return
    seed = rules.seed
    line = f"{' '.join(names)}, drawn with seed {seed}: --seed {seed} draws it again"
    yield Table(title="Order", rows=(Row(label=line),), is_aside=True)


# --- the risk ---


def _risk_tables(decision: Decision) -> Iterator[Table]:
    """What is not excluded on the requests that differed; no table if none did."""
    differed = [bound for bound in decision.bounds if bound.differed]
    if not differed:
        return
    lines = [bound_sentence(bound) for bound in differed[:_BOUNDS]]
    more = len(differed) - len(lines)
    if more:
        lines.append(f"and {more} more requests with a lower limit, or the same")
    clean = [bound for bound in decision.bounds if not bound.differed]
    if clean:
        largest = max(bound.bound for bound in clean)
        lines.append(
            f"each of the {len(clean)} other requests: up to {whole_percent_up(largest)} %"
        )
    yield text_table(title="Risk by request", lines=tuple(lines))


def bound_sentence(bound: RequestBound) -> str:
    """What a green verdict does not exclude on one request."""
    return (
        f"{bound.request} differed in {bound.differed} of {bound.starts} starts: "
        f"a fault on it in up to {whole_percent_up(bound.bound)} % of starts is not excluded"
    )


# --- the picture of an experiment for people, in the order of their questions ---

# A terminal shows 24 lines of 80 cells, and a Buildkite annotation about as much before it scrolls.
# With its title and the headline the picture must fit.
_LINES = 19
_WIDTH = 80
_SUSPECTS = 3


def tables(
    experiment: Experiment,
    decision: Decision,
    differences: Sequence[AnswerDifference],
    context: Context,
    sources: Iterable[Row] = (),
) -> tuple[Table, ...]:
    """The evidence: who answered, what differs, of what kind, how sure it is, what to do next.

    At most 20 lines of 80 cells with its title. If there is more, suspects are left out first.
    """
    if not experiment.starts:
        return ()
    before = [
        *sources,
        *start_rows(experiment),
        *request_rows(experiment.starts, decision),
        *difference_rows(experiment, differences),
    ]
    after = [*_certainty(decision), *_next(decision, differences, context)]
    table = _evidence(before, after)
    for index, sentence in enumerate(suspects(experiment, differences)[:_SUSPECTS]):
        before.append(row("" if index else "suspects", sentence))
        larger = _evidence(before, after)
        if len(table_lines(larger, _WIDTH)) > _LINES:
            break
        table = larger
    return (table,)


def _evidence(before: Sequence[Row], after: Sequence[Row]) -> Table:
    return Table(title="Evidence", rows=(*before, *after))


def _certainty(decision: Decision) -> Iterator[Row]:
    test = decision.test
    if test:
        best = f"at best {test.smallest_p:.3g} with {test.labelings} labelings"
        yield row("test", f"p {test.p:.3g}, {best}; level {test.level:.3g}")
    if decision.risk:
        yield row("risk", decision.risk)


def _next(
    decision: Decision, differences: Sequence[AnswerDifference], context: Context
) -> Iterator[Row]:
    if decision.settle:
        yield row("to settle", decision.settle)
    if differences and context.run:
        yield row("next", f"`{replay_command(differences[0], context)}`")

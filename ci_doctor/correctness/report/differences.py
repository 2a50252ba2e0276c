# SPDX-License-Identifier: Apache-2.0
"""Reads the outputs of requests whose answers differ: which pair shows most, where it diverges, both sides."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict

from ci_doctor.correctness.report.divergence import (
    Step,
    choice_of,
    first_divergence,
    no_answer,
    step,
    ulp_between,
)
from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import counted
from ci_doctor.correctness.verdict.starts import DifferenceKind
from ci_doctor.correctness.verdict.validity import Decision
from ci_doctor.errors import InfraError
from ci_doctor.model.facts.correctness import (
    AlignedAnswers,
    Divergence,
    Hardness,
    LogProbRow,
    PositionUnit,
    TokenNumber,
)

# --- two answers side by side at their divergence: visible text, and log-probabilities ---

_SIGNS = {"\n": "⏎", "\t": "⇥", "\r": "␍"}
_ALTERNATIVES = 5


def rows_around(
    left: Mapping[str, Any],
    right: Mapping[str, Any],
    at: Divergence,
    *,
    before: int = 3,
    after: int = 2,
) -> tuple[LogProbRow, ...]:
    """The tokens around a divergence by token; none if no side reports log-probabilities there."""
    if at.unit is not PositionUnit.TOKEN or at.position is None:
        return ()
    one, other = choice_of(left, at.choice), choice_of(right, at.choice)
    rows = []
    for index in range(max(0, at.position - before), at.position + after + 1):
        ours, theirs = step(one, index), step(other, index)
        # Numbers of two different tokens measure different things: their distance says nothing.
        is_same = ours is not None and theirs is not None and ours.name == theirs.name
        ulp = ulp_between(ours, theirs) if is_same else None
        # Past the end of both answers there is nothing to show.
        if ours or theirs:
            rows.append(LogProbRow(at=index, left=_ranked(ours), right=_ranked(theirs), ulp=ulp))
    numbers = [number for row in rows for _, number in (*row.left, *row.right)]
    return tuple(rows) if any(number is not None for number in numbers) else ()


def _ranked(token: Step | None) -> tuple[TokenNumber, ...]:
    """The generated token, then its best alternatives, each with its number; none for no token."""
    if token is None:
        return ()
    # The server lists the generated token among the alternatives, too.
    others = [(each.token, each.logprob) for each in token.top if each.name != token.name]
    return ((token.token, token.logprob), *others)[:_ALTERNATIVES]


def place(at: Divergence) -> str:
    """Where two answers diverge: `token 37 of content`, `character 4 of text`, `logprobs`."""
    if at.position is None:
        return at.field
    position = f"{at.unit} {at.position}"
    # The field of two reasons to stop is a path: `choices[0].finish_reason`.
    if at.hardness is Hardness.LENGTH and at.field.startswith("choices["):
        return f"{position}, the end ({at.field.rpartition('.')[2]})"
    # Nearly every request has one choice: its number would only be in the way.
    of_choice = f" of choice {at.choice}" if at.choice else ""
    return f"{position} of {at.field}{of_choice}"


def manner(at: Divergence) -> str:
    """How two answers diverge: `near-tie, 0.031 nat apart`; empty if unknown."""
    if at.apart is not None:
        return at.apart.words
    if at.hardness is Hardness.UNKNOWN:
        return ""
    gap = "" if at.gap is None else f"{at.gap:.2g} nat apart"
    if at.hardness is not Hardness.NUMBERS:
        return f"{at.hardness}, {gap}" if gap else str(at.hardness)
    # There the gap is the widest of several alternatives, and not that of two tokens. Later tokens
    # may lie further apart: the table of levels has the greatest distance of all.
    words = "the same words, other numbers"
    return f"{words}, at most {gap} at this token" if gap else words


def visible(text: str, *, spaces: bool = False) -> str:
    """`text` on one line, every character visible.

    Line ends and tabs become signs, unprintable characters escapes. With `spaces` each space
    becomes a dot.
    """
    signs = {**_SIGNS, " ": "·"} if spaces else _SIGNS
    return "".join(
        # Escapes also disarm an answer: an ESC or a bidirectional override would act on the terminal.
        signs.get(each)
        or (
            each
            if each.isprintable()
            else each.encode("unicode_escape", "backslashreplace").decode()
        )
        for each in text
    )


def sides(at: Divergence, *, before: int = 30, after: int = 30) -> tuple[str, str]:
    """Both answers on a line each, `before` and `after` characters; what differs is in brackets.

    The white space of the differing part is made visible.
    """
    # `[-0:]` would be the whole text.
    beginning = len(at.before) - before
    shared = visible(at.before[max(0, beginning) :])
    if beginning >= 0:
        shared = f"…{shared}"
    left, right = (visible(own[:after], spaces=True) for own in (at.left, at.right))
    if at.hardness is Hardness.MISSING:
        left, right = left or "no answer", right or "no answer"
    return f"{shared}[{left}]", f"{shared}[{right}]"


# --- which two answers to a request show the difference best ---


class StartDigests(Struct, frozen=True, kw_only=True):
    """What the start `name` answered to one request: the digest of its answer by pass.

    `outcome` is that of all passes at the gate's level; None if it is unknown or a pass has none.
    """

    name: str
    arm: Arm
    digests: Mapping[int, str]
    outcome: str | None = None
    archived: bool = False


class AnswerPair(Struct, frozen=True, kw_only=True):
    """The answers of two starts to one request in pass `number`, as digests; None is no answer.

    `other` is the second answer's pass if two passes of one start are compared.
    """

    first: str
    second: str
    number: int
    other: int = 0
    left: str | None
    right: str | None
    archived: bool = False


_Starts = Iterable[tuple[StartDigests, StartDigests]]


def telling_pair(kind: DifferenceKind, starts: Sequence[StartDigests]) -> AnswerPair | None:
    """The pair of answers that shows most; None if all are the same.

    If only the baseline varies: two baseline starts. Else: a baseline and a candidate start, whose answer
    no baseline start gave, if there is one. A missing answer is shown only if no two answers differ.
    """
    baseline, candidate = ([start for start in starts if start.arm is arm] for arm in Arm)
    is_flaky = kind is DifferenceKind.FLAKY
    pairs = list(combinations(baseline, 2) if is_flaky else product(baseline, candidate))
    differing = _differing(pairs)
    of_baseline = {digest for start in baseline for digest in start.digests.values()}
    own = (pair for pair in differing if not is_flaky and pair.right not in of_baseline)
    for pair in (*own, *differing):
        return pair
    return _one_missing(pairs)


def _differing(starts: _Starts) -> list[AnswerPair]:
    """The passes in which both starts answered, and not the same.

    Two starts with one outcome differ in nothing that the gate compares.
    """
    return [
        _pair(first, second, number)
        for first, second in starts
        if first.outcome is None or first.outcome != second.outcome
        for number, left in first.digests.items()
        if second.digests.get(number, left) != left
    ]


def _one_missing(starts: _Starts) -> AnswerPair | None:
    """The first pair of which only one start answered; None if there is none."""
    for first, second in starts:
        # The passes that exactly one of the two answered.
        if lone := first.digests.keys() ^ second.digests.keys():
            return _pair(first, second, min(lone))
    return None


def _pair(first: StartDigests, second: StartDigests, number: int) -> AnswerPair:
    return AnswerPair(
        first=first.name,
        second=second.name,
        number=number,
        left=first.digests.get(number),
        right=second.digests.get(number),
        archived=first.archived or second.archived,
    )


# --- reads the outputs of requests whose answers differ, and finds where they diverge ---

# The order in which differing requests are shown: what tells most comes first.
TELLING = (
    DifferenceKind.CHANGED,
    DifferenceKind.OWN,
    DifferenceKind.SOMETIMES,
    DifferenceKind.FLAKY,
)
_HARDEST = tuple(Hardness)
# The first lookup in an archived start unpacks all of it.
_ARCHIVED_LOOKUPS = 40
# Of so many requests the log-probabilities are shown: each costs the reading of two outputs.
ALIGNED = 3

Output = Mapping[str, Any]
Outputs = Mapping[str, Output]


def counted_results(experiment: Experiment) -> list[StartResult]:
    """The starts that are evidence, those of today before archived ones."""
    names = {start.name for start in counted(experiment.starts)}
    results = [result for result in experiment.compared if result.start.name in names]
    # The sort is stable: today's and the archived starts keep the order in which they were made.
    results.sort(key=lambda result: result.start.archived)
    return results


def differences(
    experiment: Experiment, decision: Decision, requests: Sequence[str]
) -> tuple[AlignedAnswers, ...]:
    """Every request that differs, the hardest first, what only the baseline shows last.

    Two outputs are read for each, and none is kept. Those of the first ALIGNED are read again for their
    log-probabilities.
    """
    results = counted_results(experiment)
    differing: list[_Difference] = []
    archived = 0
    for request in requests:
        kind = decision.kinds.get(request)
        pair = telling_pair(kind, digests_of(results, request)) if kind in TELLING else None
        if kind is None or pair is None:
            continue
        archived += pair.archived
        divergence = _UNREAD
        if not pair.archived or archived <= _ARCHIVED_LOOKUPS:
            left, right = (look_up(experiment.outputs, each) for each in (pair.left, pair.right))
            divergence = _diverge(left, right, pair)
        differing.append(_Difference(request, kind, pair, divergence))
    differing.sort(key=_Difference.order)
    return tuple(
        each.aligned(experiment.outputs if number < ALIGNED else {})
        for number, each in enumerate(differing)
    )


class _Difference(NamedTuple):
    request: str
    kind: DifferenceKind
    pair: AnswerPair
    divergence: Divergence

    def order(self) -> tuple[bool, int, int]:
        return (
            self.kind is DifferenceKind.FLAKY,
            _HARDEST.index(self.divergence.hardness),
            TELLING.index(self.kind),
        )

    def aligned(self, outputs: Outputs) -> AlignedAnswers:
        left, right = look_up(outputs, self.pair.left), look_up(outputs, self.pair.right)
        logprobs: tuple[LogProbRow, ...] = ()
        if left is not None and right is not None:
            logprobs = rows_around(left, right, self.divergence)
        return AlignedAnswers(
            request=self.request,
            kind=str(self.kind),
            starts=(self.pair.first, self.pair.second),
            pass_=self.pair.number,
            logprobs=logprobs,
            **asdict(self.divergence),
        )


def digests_of(results: Sequence[StartResult], request: str) -> list[StartDigests]:
    """What each start answered to one request."""
    return [
        StartDigests(
            name=result.start.name,
            arm=result.start.arm,
            digests=result.digests.get(request, {}),
            outcome=result.start.answers.get(request),
            archived=result.start.archived,
        )
        for result in results
    ]


def _diverge(left: Output | None, right: Output | None, pair: AnswerPair) -> Divergence:
    if pair.left is None or pair.right is None:
        return no_answer(left, right)
    if left is None or right is None:
        return _UNREAD
    return first_divergence(left, right)


def look_up(outputs: Outputs, digest: str | None) -> Output | None:
    """An output, or None if it can no longer be read."""
    try:
        return None if digest is None else outputs[digest]
    except (KeyError, InfraError):
        # The verdict was made from digests. It stands without the texts.
        return None


_UNREAD = Divergence(field="answer")


def positions_of(differences: Sequence[AlignedAnswers]) -> tuple[PositionUnit, list[int]]:
    """The positions of the first differences, sorted, in the unit that most of them have."""
    tokens, characters = (
        sorted(
            each.position for each in differences if each.unit is unit and each.position is not None
        )
        for unit in PositionUnit
    )
    # Positions of two units have no common axis.
    if len(characters) > len(tokens):
        return PositionUnit.CHARACTER, characters
    return PositionUnit.TOKEN, tokens


def divergence_lines(difference: AlignedAnswers) -> Iterator[str]:
    """Where two answers diverge, in three lines."""
    first, second = difference.starts
    where = ", ".join(filter(None, (place(difference), manner(difference))))
    yield f"request {difference.request}: {first} against {second}, {where}"
    width = max(map(len, difference.starts))
    for name, side in zip(difference.starts, sides(difference), strict=True):
        yield f"  {name:>{width}}  {side}"

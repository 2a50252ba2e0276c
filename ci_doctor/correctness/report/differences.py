# SPDX-License-Identifier: Apache-2.0
"""Reads the outputs of requests whose answers differ: which pair shows most, where it diverges, both sides."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

from msgspec import Struct

from ci_doctor.correctness.report.divergence import (
    Divergence,
    PositionUnit,
    choice_of,
    first_divergence,
    no_answer,
)
from ci_doctor.correctness.report.tokens import Alternative, Hardness, Step, step, ulp_between
from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import counted
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.correctness.verdict.starts import DifferenceKind
from ci_doctor.errors import InfraError

# --- two answers side by side at their divergence: visible text, and log-probabilities ---

_SIGNS = {"\n": "⏎", "\t": "⇥", "\r": "␍"}


class AlignedRow(Struct, frozen=True, kw_only=True):
    """The tokens of both sides at one position.

    `ulp` is the distance of their log-probabilities, None if they are different tokens.
    """

    at: int
    left: Step | None
    right: Step | None
    ulp: int | None = None

    @property
    def has_numbers(self) -> bool:
        """Whether a side reports log-probabilities here."""
        return _has_numbers(self.left) or _has_numbers(self.right)


def rows_around(
    left: Mapping[str, Any],
    right: Mapping[str, Any],
    at: Divergence,
    *,
    before: int = 3,
    after: int = 2,
) -> tuple[AlignedRow, ...]:
    """The tokens around a divergence by token; none if no side reports log-probabilities there."""
    if at.unit is not PositionUnit.TOKEN or at.position is None:
        return ()
    one = choice_of(left, at.choice)
    other = choice_of(right, at.choice)
    first = max(0, at.position - before)
    last = at.position + after
    rows = []
    for index in range(first, last + 1):
        row = _row(index, step(one, index), step(other, index))
        # Past the end of both answers there is nothing to show.
        if row.left or row.right:
            rows.append(row)
    if not any(row.has_numbers for row in rows):
        return ()
    return tuple(rows)


def _row(at: int, left: Step | None, right: Step | None) -> AlignedRow:
    # Numbers of two different tokens measure different things: their distance says nothing.
    if left is None or right is None or left.name != right.name:
        return AlignedRow(at=at, left=left, right=right)
    ulp = ulp_between(left, right)
    return AlignedRow(at=at, left=left, right=right, ulp=ulp)


def _has_numbers(token: Step | None) -> bool:
    if token is None:
        return False
    return token.logprob is not None or bool(token.top)


def ranked(token: Step | None, most: int) -> tuple[Alternative, ...]:
    """The generated token, then its best alternatives; `most` in all, each with its number."""
    if token is None:
        return ()
    ranking = []
    if token.logprob is not None:
        own = Alternative(token=token.token, logprob=token.logprob, bytes=token.bytes)
        ranking.append(own)
    # The server lists the generated token among the alternatives, too.
    ranking.extend(each for each in token.top if each.name != token.name)
    return tuple(ranking[:most])


def place(at: Divergence) -> str:
    """Where two answers diverge: `token 37 of content`, `character 4 of text`, `logprobs`."""
    if at.position is None:
        return at.field
    position = f"{at.unit} {at.position}"
    # The field of two reasons to stop is a path: `choices[0].finish_reason`.
    if at.hardness is Hardness.LENGTH and at.field.startswith("choices["):
        _, _, key = at.field.rpartition(".")
        return f"{position}, the end ({key})"
    part = f"{position} of {at.field}"
    # Nearly every request has one choice: its number would only be in the way.
    if at.choice == 0:
        return part
    return f"{part} of choice {at.choice}"


def manner(at: Divergence) -> str:
    """How two answers diverge: `near-tie, 0.031 nat apart`; empty if unknown."""
    if at.apart is not None:
        return at.apart.words
    if at.hardness is Hardness.UNKNOWN:
        return ""
    words = str(at.hardness)
    if at.hardness is Hardness.NUMBERS:
        words = "the same words, other numbers"
    if at.gap is None:
        return words
    gap = f"{at.gap:.2g} nat apart"
    # There the gap is the widest of several alternatives, and not that of two tokens. Later tokens
    # may lie further apart: the table of levels has the greatest distance of all.
    if at.hardness is Hardness.NUMBERS:
        gap = f"at most {gap} at this token"
    return f"{words}, {gap}"


def visible(text: str, *, spaces: bool = False) -> str:
    """`text` on one line, every character visible.

    Line ends and tabs become signs, unprintable characters escapes. With `spaces` each space
    becomes a dot.
    """
    return "".join(_visible(character, spaces=spaces) for character in text)


def _visible(character: str, *, spaces: bool) -> str:
    if character == " " and spaces:
        return "·"
    if character in _SIGNS:
        return _SIGNS[character]
    if character.isprintable():
        return character
    # Escapes also disarm an answer: an ESC or a bidirectional override would act on the terminal.
    return character.encode("unicode_escape", "backslashreplace").decode()


class AnswerSide(Struct, frozen=True, kw_only=True):
    """One answer on one line: `before` is common to both sides, `own` only this one's."""

    name: str
    before: str
    own: str


def sides(
    at: Divergence, first: str, second: str, *, before: int = 30, after: int = 30
) -> tuple[AnswerSide, AnswerSide]:
    """Both answers, `before` and `after` characters of each.

    The white space of the differing part is made visible.
    """
    # `[-0:]` would be the whole text.
    beginning = len(at.before) - before
    shared = visible(at.before[max(0, beginning) :])
    if beginning >= 0:
        shared = f"…{shared}"
    left = visible(at.left[:after], spaces=True)
    right = visible(at.right[:after], spaces=True)
    if at.hardness is Hardness.MISSING:
        left = left or "no answer"
        right = right or "no answer"
    return (
        AnswerSide(name=first, before=shared, own=left),
        AnswerSide(name=second, before=shared, own=right),
    )


def side_lines(pair: tuple[AnswerSide, AnswerSide]) -> Iterator[str]:
    """Both sides below each other, the difference in brackets."""
    left, right = pair
    width = max(len(left.name), len(right.name))
    for side in pair:
        name = f"{side.name:>{width}}"
        yield f"  {name}  {side.before}[{side.own}]"


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


def telling_pairs(kind: DifferenceKind, starts: Sequence[StartDigests]) -> tuple[AnswerPair, ...]:
    """The pair of answers that shows most, or two pairs that differ in the baseline's answer only.

    If only the baseline varies: two baseline starts. Else: a baseline and a candidate start. A
    missing answer is shown only if no two answers differ.
    """
    baseline = [start for start in starts if start.arm is Arm.BASELINE]
    candidate = [start for start in starts if start.arm is Arm.CANDIDATE]
    if kind is DifferenceKind.FLAKY:
        pairs = list(combinations(baseline, 2))
        differing = _differing(pairs)[:1]
    else:
        pairs = list(product(baseline, candidate))
        differing = _most_telling(_differing(pairs), baseline)
    return tuple(differing) or _one_missing(pairs)


def _most_telling(
    differing: Sequence[AnswerPair], baseline: Sequence[StartDigests]
) -> list[AnswerPair]:
    """The first pair, and a second one with another answer of the baseline, if there is one."""
    of_baseline: set[str] = set()
    for start in baseline:
        of_baseline.update(start.digests.values())
    # An answer that no baseline start gave proves more than one which differs from some of them.
    own = [pair for pair in differing if pair.right not in of_baseline]
    pairs = own or differing
    telling = list(pairs[:1])
    for pair in pairs:
        if pair.right == pairs[0].right and pair.left != pairs[0].left:
            telling.append(pair)
            break
    return telling


def _differing(starts: _Starts) -> list[AnswerPair]:
    """The passes in which both starts answered, and not the same.

    Two starts with one outcome differ in nothing that the gate compares.
    """
    pairs = []
    for first, second in starts:
        if first.outcome is not None and first.outcome == second.outcome:
            continue
        for number, left in first.digests.items():
            if second.digests.get(number, left) != left:
                pair = _pair(first, second, number)
                pairs.append(pair)
    return pairs


def _one_missing(starts: _Starts) -> tuple[AnswerPair, ...]:
    """The first pair of which only one start answered; empty if there is none."""
    for first, second in starts:
        # The passes that exactly one of the two answered.
        lone = first.digests.keys() ^ second.digests.keys()
        if lone:
            pair = _pair(first, second, min(lone))
            return (pair,)
    return ()


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

_Outputs = Mapping[str, Mapping[str, Any]]


class AnswerDifference(Struct, frozen=True, kw_only=True):
    """A request whose answers differ, the pair that shows most of it, and where that diverges."""

    request: str
    kind: DifferenceKind
    pair: AnswerPair
    divergence: Divergence


def counted_results(experiment: Experiment) -> list[StartResult]:
    """The starts that are evidence, those of today before archived ones."""
    names = {start.name for start in counted(experiment.starts)}
    results = [result for result in experiment.compared if result.start.name in names]
    # The sort is stable: today's and the archived starts keep the order in which they were made.
    results.sort(key=lambda result: result.start.archived)
    return results


def differences(
    experiment: Experiment, decision: Decision, requests: Sequence[str]
) -> tuple[AnswerDifference, ...]:
    """Every request that differs, the hardest first, what only the baseline shows last.

    At most three outputs are read for each, and none is kept.
    """
    results = counted_results(experiment)
    differing = []
    archived = 0
    for request in requests:
        kind = decision.kinds.get(request)
        if kind not in TELLING:
            continue
        pairs = telling_pairs(kind, _digests(results, request))
        if not pairs:
            continue
        from_archive = any(each.archived for each in pairs)
        archived += from_archive
        if from_archive and archived > _ARCHIVED_LOOKUPS:
            pair = pairs[0]
            divergence = _unread()
        else:
            pair, divergence = _latest(experiment.outputs, pairs)
        difference = AnswerDifference(request=request, kind=kind, pair=pair, divergence=divergence)
        differing.append(difference)
    return tuple(sorted(differing, key=_order))


def _digests(results: Sequence[StartResult], request: str) -> list[StartDigests]:
    """What each start answered to one request."""
    starts = []
    for result in results:
        start = result.start
        digests = result.digests.get(request, {})
        starts.append(
            StartDigests(
                name=start.name,
                arm=start.arm,
                digests=digests,
                outcome=start.answers.get(request),
                archived=start.archived,
            )
        )
    return starts


def _order(difference: AnswerDifference) -> tuple[bool, int, int]:
    return (
        difference.kind is DifferenceKind.FLAKY,
        _HARDEST.index(difference.divergence.hardness),
        TELLING.index(difference.kind),
    )


def _latest(outputs: _Outputs, pairs: Sequence[AnswerPair]) -> tuple[AnswerPair, Divergence]:
    """Of two pairs with the same right answer, the one that diverges last.

    The baseline answer nearest to the candidate's shows best what is the candidate's own.
    """
    latest = pairs[0]
    # Looked up once for all pairs: an archived output costs a decompression.
    right = _look_up(outputs, latest.right)
    left = _look_up(outputs, latest.left)
    last = _diverge(left, right, latest)
    for pair in pairs[1:]:
        left = _look_up(outputs, pair.left)
        divergence = _diverge(left, right, pair)
        if _position(divergence) > _position(last):
            latest = pair
            last = divergence
    return latest, last


def _position(divergence: Divergence) -> int:
    # A divergence without a position was not read, or is of another field: any other says more.
    if divergence.position is None:
        return -1
    return divergence.position


def _diverge(
    left: Mapping[str, Any] | None, right: Mapping[str, Any] | None, pair: AnswerPair
) -> Divergence:
    if pair.left is None or pair.right is None:
        return no_answer(left, right)
    if left is None or right is None:
        return _unread()
    return first_divergence(left, right)


def _look_up(outputs: _Outputs, digest: str | None) -> Mapping[str, Any] | None:
    """An output, or None if it can no longer be read."""
    if digest is None:
        return None
    try:
        return outputs[digest]
    except (KeyError, InfraError):
        # The verdict was made from digests. It stands without the texts.
        return None


def _unread() -> Divergence:
    return Divergence(field="answer", hardness=Hardness.UNKNOWN)


def positions_of(differences: Sequence[AnswerDifference]) -> tuple[PositionUnit, list[int]]:
    """The positions of the first differences, sorted, in the unit that most of them have."""
    tokens: list[int] = []
    characters: list[int] = []
    for difference in differences:
        at = difference.divergence
        if at.position is None:
            continue
        if at.unit is PositionUnit.TOKEN:
            tokens.append(at.position)
        else:
            characters.append(at.position)
    # Positions of two units have no common axis.
    if len(characters) > len(tokens):
        return PositionUnit.CHARACTER, sorted(characters)
    return PositionUnit.TOKEN, sorted(tokens)


def logprob_rows(outputs: _Outputs, difference: AnswerDifference) -> tuple[AlignedRow, ...]:
    """The tokens around a difference; reads two outputs."""
    left = _look_up(outputs, difference.pair.left)
    right = _look_up(outputs, difference.pair.right)
    if left is None or right is None:
        return ()
    return rows_around(left, right, difference.divergence)


def divergence_lines(difference: AnswerDifference) -> Iterator[str]:
    """Where two answers diverge, in three lines."""
    at = difference.divergence
    pair = difference.pair
    where = place(at)
    how = manner(at)
    if how:
        where = f"{where}, {how}"
    yield f"request {difference.request}: {pair.first} against {pair.second}, {where}"
    yield from side_lines(sides(at, pair.first, pair.second))

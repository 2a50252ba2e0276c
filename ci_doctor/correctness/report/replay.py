# SPDX-License-Identifier: Apache-2.0
"""Reads one request of a run again, and shows two of its answers: the library entry of `replay`."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict, replace

from ci_doctor.correctness.report.alignment import AlignedRow, rows_around, visible
from ci_doctor.correctness.report.figures import logprob_facts
from ci_doctor.correctness.report.marked_text import AnswerBlock, plain
from ci_doctor.correctness.report.pairs import AnswerPair
from ci_doctor.correctness.report.recorded import RecordedRequest, read_request
from ci_doctor.correctness.report.recorded_comparison import recorded_comparison
from ci_doctor.correctness.report.replay_answers import answers
from ci_doctor.correctness.report.replay_lines import alignment, beside, numbers
from ci_doctor.correctness.report.replay_pair import choose_pair, divergence_of, outputs_of
from ci_doctor.correctness.verdict.compare import explain
from ci_doctor.model.facts.replay import AnswerDivergence, ReplayFacts
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Table, text_table

_EXCERPT = 80


class ReplayRequest(Struct, frozen=True, kw_only=True):
    """What to show: a request by its id, from the report directory of a run.

    `starts` names two starts, or one to compare its passes; empty chooses the pair that shows most.
    `width` is that of the lines in cells.
    """

    run: Path
    request: str
    starts: tuple[str, ...] = ()
    width: int = 80


class Replay(Struct, frozen=True, kw_only=True):
    """The outcome, and its tables as blocks whose pieces are marked for a terminal.

    `unreadable` counts lines of the samples that were left out.
    """

    outcome: Outcome
    blocks: tuple[AnswerBlock, ...]
    unreadable: int


def replay(request: ReplayRequest) -> Outcome:
    """What every start answered, and where two of the answers diverge. Nothing is judged.

    Raises UsageError if there is no such run, request or start.
    """
    return marked_replay(request).outcome


def marked_replay(request: ReplayRequest) -> Replay:
    """As `replay`, with the marks of each line."""
    recorded = read_request(request.run, request.request)
    recorded = replace(recorded, comparison=recorded_comparison(request.run))
    pair = choose_pair(recorded, request.starts)
    blocks = tuple(_blocks(recorded, pair, request.width))
    outcome = Outcome(
        verdict=None,
        summary=_summary(recorded, pair),
        tables=tuple(_tables(blocks)),
        facts=_facts(recorded, pair),
    )
    return Replay(outcome=outcome, blocks=blocks, unreadable=recorded.unreadable)


def _is_same(pair: AnswerPair) -> bool:
    # Two missing answers are no agreement.
    return pair.left is not None and pair.left == pair.right


def _summary(recorded: RecordedRequest, pair: AnswerPair | None) -> str:
    kind = recorded.kind
    # The id is what a person typed, or a file holds: it may act on a terminal.
    request = visible(recorded.request)
    words = f"request {request}: {kind}: {explain(kind)}"
    if not recorded.comparison.is_exact:
        words = f"{words} ({recorded.comparison.manner})"
    varying = [start.name for start in recorded.starts if len(set(start.digests.values())) > 1]
    if varying:
        # Else one of its passes seems to contradict the kind.
        words = (
            f"{words}; {_few(varying)} between its passes, and a start's answer is that of all "
            "its passes together"
        )
    if pair is not None and _is_same(pair):
        return f"{words}; these two are the same"
    return words


def _few(names: Sequence[str]) -> str:
    """`B1 differs`, or of several starts the first and how many more."""
    if len(names) == 1:
        return f"{names[0]} differs"
    return f"{names[0]} and {len(names) - 1} more starts each differ"


def _blocks(
    recorded: RecordedRequest, pair: AnswerPair | None, width: int
) -> Iterator[AnswerBlock]:
    yield answers(recorded, width)
    if pair is None:
        return
    if not _is_same(pair):
        at = divergence_of(recorded, pair, width)
        yield alignment(pair, at, width)
        log_probabilities = numbers(recorded, pair, at, width)
        if log_probabilities is not None:
            yield log_probabilities
    yield beside(recorded, pair, width)


def _tables(blocks: Sequence[AnswerBlock]) -> Iterator[Table]:
    for block in blocks:
        lines = tuple(map(plain, block.lines))
        yield text_table(block.title, lines)


def _facts(recorded: RecordedRequest, pair: AnswerPair | None) -> ReplayFacts:
    facts = ReplayFacts(
        request=recorded.request,
        kind=str(recorded.kind),
        answers=_digests(recorded),
        unreadable_lines=recorded.unreadable,
    )
    if pair is None or _is_same(pair):
        return facts
    at = divergence_of(recorded, pair, _EXCERPT)
    left, right = outputs_of(recorded, pair)
    rows: Sequence[AlignedRow] = ()
    if left is not None and right is not None:
        rows = rows_around(left, right, at)
    return replace(
        facts,
        starts=(pair.first, pair.second),
        passes=(pair.number, pair.other or pair.number),
        divergence=AnswerDivergence(**asdict(at)),
        logprobs=logprob_facts(rows),
    )


def _digests(recorded: RecordedRequest) -> dict[str, dict[str, str | None]]:
    """By start and pass the digest of each answer; None for an error."""
    digests: dict[str, dict[str, str | None]] = {}
    for start in recorded.starts:
        by_pass = digests.setdefault(start.name, {})
        for number, sample in start.samples.items():
            # A key of JSON is a string.
            by_pass[str(number)] = sample.digest
    return digests

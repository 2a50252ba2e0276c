# SPDX-License-Identifier: Apache-2.0
"""Reads one request of a run again, finished or killed, and shows two of its answers: `replay`."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ci_doctor.correctness.evidence.run_identity import read_run
from ci_doctor.correctness.evidence.samples import Sample, is_control, read_line, read_lines
from ci_doctor.correctness.report.differences import (
    AnswerPair,
    StartDigests,
    digests_of,
    manner,
    place,
    rows_around,
    sides,
    telling_pair,
    visible,
)
from ci_doctor.correctness.report.divergence import choice_of, first_divergence, no_answer
from ci_doctor.correctness.results import SAMPLES, SameAnswers, Tally
from ci_doctor.correctness.settings import AnswerLevel, Arm, Comparison, read_comparison
from ci_doctor.correctness.verdict.compare import classify, explain
from ci_doctor.correctness.verdict.starts import DifferenceKind
from ci_doctor.errors import UsageError
from ci_doctor.load.answer_items import parts
from ci_doctor.load.canonical import check_output, text_of
from ci_doctor.model.facts.correctness import Divergence, LogProbRow, ReplayFacts, TokenNumber
from ci_doctor.model.outcome import Outcome, Row, Table, row
from ci_doctor.model.words import did_you_mean, nearest
from ci_doctor.render.formatting import amount, listed
from ci_doctor.render.layout import clip

# --- reads one request of a run back from its samples ---

# So many ids are compared with a mistyped one. The comparison is quadratic in their length: a
# larger file would keep a person waiting for a hint.
_MOST_IDS = 20_000
_MANY_IDS = 10
_MOST_PASSES = 1_000_000  # of a request; a file may hold any number


class RecordedRequest(Struct, frozen=True, kw_only=True):
    """One request in every start that got it, in the order in which the starts were made.

    `samples` are by start and pass. `kind` is how the arms compare on it at the gate's level, by the
    `comparison` of the run. `passes` is how often a start got it: a killed one may lack the last ones.
    `unreadable` counts lines that are torn, and its own that hold no sample.
    """

    request: str
    samples: Mapping[str, Mapping[int, Sample]]
    starts: tuple[StartDigests, ...]
    kind: DifferenceKind
    comparison: Comparison
    passes: int
    unreadable: int = 0


def read_request(directory: Path, identity: str) -> RecordedRequest:
    """Every sample of the request `identity` below `directory`.

    One line is in memory at a time, beside the samples of the request. Raises UsageError if there
    are no samples, or none of that request.
    """
    samples, unreadable = _own_samples(directory / SAMPLES, identity)
    if not samples:
        raise _unknown_request(directory / SAMPLES, identity)
    comparison = recorded_comparison(directory)
    outputs: dict[str, Mapping[str, Any]] = {}
    same = SameAnswers(comparison, outputs)
    passes = max(number for each in samples.values() for number in each)
    results = []
    for (arm, start), by_pass in samples.items():
        tally = Tally(arm=arm, number=start, ids=(identity,), passes=passes)
        for sample in by_pass.values():
            tally.add(sample)
            if sample.digest is not None and sample.output is not None:
                outputs[sample.digest] = sample.output
        results.append(same.at_gate(tally.result()))
    names = [result.start.name for result in results]
    return RecordedRequest(
        request=identity,
        samples=dict(zip(names, samples.values(), strict=True)),
        starts=tuple(digests_of(results, identity)),
        kind=classify([identity], [result.start for result in results])[identity],
        comparison=comparison,
        passes=passes,
        unreadable=unreadable,
    )


def _own_samples(path: Path, identity: str) -> tuple[dict[tuple[Arm, int], dict[int, Sample]], int]:
    """The samples of a request by start and pass, and how many lines are torn or hold none."""
    # Only lines with this text are read whole.
    named = json.dumps(identity).encode("ascii")
    samples: dict[tuple[Arm, int], dict[int, Sample]] = {}
    unreadable = 0
    try:
        for _, line in read_lines(path):
            if named not in line or is_control(line):
                # A killed run may leave a torn line.
                unreadable += not line.endswith(b"}\n")
                continue
            try:
                sample = _sample(line)
                if sample.id == identity:
                    samples.setdefault((Arm(sample.arm), sample.start), {})[sample.pass_] = sample
            except ValueError:
                unreadable += 1
    except OSError as error:
        raise UsageError(
            f"no samples of a run in {path.parent}: {path.name}: {error.strerror}",
            hint="name the report directory of a `ci-doctor correctness` run with --run",
        ) from error
    return samples, unreadable


def recorded_comparison(directory: Path) -> Comparison:
    """What the gate of a finished run compared; everything, if it does not say so."""
    try:
        settings = read_run(directory).identity.settings
        level = AnswerLevel(str(settings.get("compare") or AnswerLevel.NUMBERS))
        limit = settings.get("limit")
        return read_comparison(level, str(limit) if limit else None)
    except (UsageError, ValueError):
        # Samples alone can be shown too.
        return Comparison()


def _sample(line: bytes) -> Sample:
    """The sample of a line, whose output has the shape of an answer. Raises ValueError."""
    sample = read_line(line)
    if sample.start < 1 or not 1 <= sample.pass_ <= _MOST_PASSES:
        raise ValueError("starts and passes count from 1")
    if sample.output is not None:
        check_output(sample.output)
    return sample


def _unknown_request(path: Path, identity: str) -> UsageError:
    # A dict, and not a set: the hint names ids in the order of the file.
    found: dict[str, None] = {}
    for _, line in read_lines(path):
        with contextlib.suppress(ValueError):
            if not is_control(line):
                found.setdefault(read_line(line).id)
    ids = list(found)[:_MOST_IDS]
    if not ids:
        hint = "name the report directory of a run that sent requests"
        return UsageError(f"{path} holds no sample", hint=hint)
    hint = did_you_mean(identity, ids) or ""
    if len(ids) > _MANY_IDS and nearest(identity, ids) is None:
        # The shortest are the easiest to type.
        hint = f"it sent {len(found)} requests: {listed(sorted(ids, key=len), 5)}"
    return UsageError(f"the run in {path.parent} never sent a request `{identity}`", hint=hint)


# --- which two answers of a recorded request a replay shows, and where they diverge ---


def choose_pair(recorded: RecordedRequest, names: Sequence[str] = ()) -> AnswerPair | None:
    """Two answers to show: of the named starts (of one: two passes), else the most telling pair.

    None if all answers are the same and nothing is named. Raises UsageError for an unknown start.
    """
    by_name = {start.name: start for start in recorded.starts}
    for name in names:
        if name not in by_name:
            hint = did_you_mean(name, list(by_name))
            if name.startswith(("a", "b")):
                hint = f"its archived starts are not in {SAMPLES}"
            raise UsageError(f"no start `{name}` got the request {recorded.request}", hint=hint)
    if names:
        return _pair(recorded, by_name[names[0]], by_name[names[-1]])
    if pair := telling_pair(recorded.kind, recorded.starts):
        return pair
    passes = (_pair(recorded, start, start) for start in recorded.starts)
    return next((each for each in passes if each and each.left != each.right), None)


def _pair(
    recorded: RecordedRequest, first: StartDigests, second: StartDigests
) -> AnswerPair | None:
    """The first pass in which two starts differ, or their first pass.

    Of one start: its first pass and the first pass that differs from it, or its second pass. None
    if it has a single pass.
    """
    numbers = sorted({*recorded.samples[first.name], *recorded.samples[second.name]})
    is_one = first is second
    pairs = [
        AnswerPair(
            first=first.name,
            second=second.name,
            number=numbers[0] if is_one else number,
            other=number,
            left=first.digests.get(numbers[0] if is_one else number),
            right=second.digests.get(number),
        )
        for number in numbers[is_one:]
    ]
    return next((pair for pair in pairs if pair.left != pair.right), pairs[0] if pairs else None)


def names_of(pair: AnswerPair) -> tuple[str, str]:
    """The names of the two sides: starts, or passes if both are one start."""
    if pair.first != pair.second:
        return pair.first, pair.second
    return f"{pair.first} pass {pair.number}", f"{pair.second} pass {pair.other or pair.number}"


def samples_of(recorded: RecordedRequest, pair: AnswerPair) -> tuple[Sample | None, Sample | None]:
    """The two samples of a pair; None for a pass that the start did not reach."""
    # Without a pass of its own, the second answer is of the same pass as the first.
    left = recorded.samples[pair.first].get(pair.number)
    return left, recorded.samples[pair.second].get(pair.other or pair.number)


# --- what is shown: the answers, both texts, the numbers, and what may explain them ---

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_WIDEST_NAMES = 30
_EXCERPT = 80
_TOKEN_CELLS = 20
_SIDE_CELLS = 30
_STOPS = ("finish_reason", "stop_reason", "matched_stop")
_OF_META = ("tries", "system_fingerprint")


class ReplayRequest(Struct, frozen=True, kw_only=True):
    """What to show: a request by its id, from the report directory of a run.

    `starts` names two starts, or one to compare its passes; empty chooses the pair that shows most.
    """

    run: Path
    request: str
    starts: tuple[str, ...] = ()


def replay(request: ReplayRequest) -> Outcome:
    """What every start answered, and where two of the answers diverge. Nothing is judged.

    Raises UsageError if there is no such run, request or start.
    """
    recorded = read_request(request.run, request.request)
    pair = choose_pair(recorded, request.starts)
    # Two missing answers are no agreement.
    is_same = pair is not None and pair.left is not None and pair.left == pair.right
    tables = [Table(title="Answers", rows=tuple(_answer_rows(recorded)))]
    digests: dict[str, dict[str, str | None]] = {
        # A key of JSON is a string.
        name: {str(number): sample.digest for number, sample in samples.items()}
        for name, samples in recorded.samples.items()
    }
    facts = ReplayFacts(
        request=recorded.request,
        kind=str(recorded.kind),
        answers=digests,
        unreadable_lines=recorded.unreadable,
    )
    if pair is not None and not is_same:
        left, right = (sample.output if sample else None for sample in samples_of(recorded, pair))
        logprobs: tuple[LogProbRow, ...] = ()
        if left is None or right is None:
            at = no_answer(left, right, _EXCERPT)
        else:
            at = first_divergence(left, right, _EXCERPT)
            logprobs = rows_around(left, right, at)
        tables.append(_side_table(pair, at))
        if logprobs:
            tables.append(_number_table(pair, at, logprobs))
        facts = msgspec.structs.replace(
            facts,
            starts=(pair.first, pair.second),
            passes=(pair.number, pair.other or pair.number),
            divergence=at,
            logprobs=logprobs,
        )
    if pair is not None:
        rows = tuple(_detail_rows(*samples_of(recorded, pair)))
        tables.append(Table(title="Beside the answer", columns=names_of(pair), rows=rows))
    summary = _summary(recorded)
    return Outcome(
        verdict=None,
        summary=f"{summary}; these two are the same" if is_same else summary,
        tables=tuple(tables),
        facts=facts,
    )


def _summary(recorded: RecordedRequest) -> str:
    # The id is what a person typed, or a file holds: it may act on a terminal.
    words = f"request {visible(recorded.request)}: {recorded.kind}: {explain(recorded.kind)}"
    if not recorded.comparison.is_exact:
        words = f"{words} ({recorded.comparison.manner})"
    varying = [start.name for start in recorded.starts if len(set(start.digests.values())) > 1]
    if not varying:
        return words
    few = f"{varying[0]} differs"
    if len(varying) > 1:
        few = f"{varying[0]} and {amount(len(varying) - 1, 'more start')} each differ"
    # Else one of its passes seems to contradict the kind.
    return (
        f"{words}; {few} between its passes, and a start's answer is that of all "
        "its passes together"
    )


def _answer_rows(recorded: RecordedRequest) -> Iterator[Row]:
    """Every distinct answer with the starts that gave it, then every error."""
    given: dict[str, list[str]] = {}
    outputs: dict[str, Mapping[str, Any]] = {}
    errors: dict[str, list[str]] = {}
    for start in recorded.starts:
        samples = recorded.samples[start.name]
        is_one = len(start.digests) == recorded.passes and len(set(start.digests.values())) == 1
        for number, sample in sorted(samples.items()):
            # `A1`, or `A1/2` with the pass if not all of its passes gave this answer.
            name = start.name if recorded.passes == 1 or is_one else f"{start.name}/{number}"
            if sample.digest is None or sample.output is None:
                errors.setdefault(sample.error or "no answer", []).append(name)
            else:
                outputs.setdefault(sample.digest, sample.output)
                given.setdefault(sample.digest, []).append(name)
    # The letter of the first answer with these words and tokens.
    letters: dict[str, str] = {}
    for index, (digest, names) in enumerate(given.items()):
        output = outputs[digest]
        letter = _LETTERS[index % len(_LETTERS)]
        divided = parts(output)
        # A vector has no words that could be the same.
        compared = output if divided.wordless else [divided.words, divided.tokens]
        first = letters.setdefault(json.dumps(compared, sort_keys=True), letter)
        text = f"the words of {first}, other numbers"
        if first == letter:
            # Clipped before it is made visible: an answer of megabytes would cost seconds.
            text = visible(text_of(dict(output))[: 2 * _EXCERPT]) or "(no text)"
        # An answer of fifty starts must leave room for its text.
        whose = clip(" ".join(dict.fromkeys(names)), _WIDEST_NAMES)
        tokens, reason = output.get("completion_tokens"), choice_of(output, 0).get("finish_reason")
        about = [] if tokens is None else [f"{tokens} tokens"]
        about += [str(reason)] if reason else []
        yield row(letter, whose, ", ".join(about), clip(text, _EXCERPT))
    for error, names in errors.items():
        # An error may quote what the server answered: escape sequences and line ends, too.
        yield row("✗", " ".join(names), clip(visible(error), _EXCERPT))


def _side_table(pair: AnswerPair, at: Divergence) -> Table:
    """Both texts below each other around their divergence, the difference in brackets."""
    names = names_of(pair)
    title = f"{names[0]} against {names[1]}"
    # Two passes of one start carry their numbers in the names of the sides.
    if pair.first != pair.second:
        title = f"{title}, pass {pair.number}"
    where = ": ".join(filter(None, (place(at), manner(at))))
    texts = zip(names, sides(at), strict=True)
    rows = (Row(label=f"diverge at {where}"), *(row(name, text) for name, text in texts))
    return Table(title=title, rows=rows)


def _number_table(pair: AnswerPair, at: Divergence, logprobs: Sequence[LogProbRow]) -> Table:
    """The token of each side by position; at the divergence the best alternatives, too."""
    rows = []
    for each in logprobs:
        is_here = each.at == at.position
        most = max(len(each.left), len(each.right)) if is_here else 1
        for index in range(most):
            label = "" if index else f"{'> ' if is_here else ''}{each.at}"
            ulp = "" if index or each.ulp is None else each.ulp
            left, right = _token_cells(each.left, index), _token_cells(each.right, index)
            rows.append(row(label, *left, *right, ulp))
    first, second = names_of(pair)
    columns = (first, "logprob", second, "logprob", "ULP")
    return Table(title="Log-probabilities", columns=columns, rows=tuple(rows))


def _token_cells(side: Sequence[TokenNumber], index: int) -> tuple[str, str]:
    if index >= len(side):
        return "", ""
    token, logprob = side[index]
    # Six digits: enough to see a difference of one ULP of float32.
    number = "" if logprob is None else f"{logprob:.6f}"
    return clip(visible(token, spaces=True), _TOKEN_CELLS), number


def _detail_rows(left: Sample | None, right: Sample | None) -> Iterator[Row]:
    """What was not compared and may explain a difference; `≠` marks what differs."""
    ours, theirs = _details(left), _details(right)
    for key in ours | theirs:
        # What a server reports may hold anything, escape sequences too.
        one, other = (clip(visible(each.get(key, "-")), _SIDE_CELLS) for each in (ours, theirs))
        sign = "" if ours.get(key) == theirs.get(key) else "≠ "
        yield row(f"{sign}{clip(key, 22)}", one, other)


def _details(sample: Sample | None) -> dict[str, str]:
    """HTTP status, why it stopped, the usage, and how often it was tried."""
    if sample is None:
        return {"error": "was never sent"}
    choice = choice_of(sample.output or {}, 0)
    # A server reports its usage in any form. Only an object has names to show.
    usage = sample.meta.get("usage")
    values: dict[str, Any] = {
        "status": sample.status,
        "error": sample.error,
        **{key: choice.get(key) for key in _STOPS},
        **(usage if isinstance(usage, dict) else {}),
        **{key: sample.meta.get(key) for key in _OF_META},
    }
    return {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in values.items()
        if value is not None
    }

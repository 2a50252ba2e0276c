# SPDX-License-Identifier: Apache-2.0
"""How sure a verdict is, as tables: the mix of answers, the looks, the order, the risk. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence

from ci_doctor.correctness.report.figures import answer_classes
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import Arm, Policy, Rules
from ci_doctor.correctness.verdict.decision import (
    Decision,
    InterimLook,
    PermutationTest,
    RequestBound,
)
from ci_doctor.correctness.verdict.starts import ArmStart, of_arm
from ci_doctor.model.table import Row, Table, row, text_table
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.formatting import probability, whole_percent_up

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

# SPDX-License-Identifier: Apache-2.0
"""The picture of an experiment for people, in the order of their questions. Pure."""

from collections.abc import Iterator, Sequence

from ci_doctor.correctness.report.differences import AnswerDifference
from ci_doctor.correctness.report.findings import Context, replay_command
from ci_doctor.correctness.report.picture_differences import difference_rows
from ci_doctor.correctness.report.picture_starts import request_rows, start_rows
from ci_doctor.correctness.report.suspects import suspects
from ci_doctor.correctness.results import Experiment
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.model.table import Table, text_table

# A terminal shows 24 lines of 80 cells, and a Buildkite annotation about as much before it scrolls.
# With its title and the headline the picture must fit.
_ROWS = 19
_WIDTH = 80
_SUSPECTS = 3
_LABEL = 11


def sections(
    experiment: Experiment,
    decision: Decision,
    differences: Sequence[AnswerDifference],
    context: Context,
) -> tuple[Table, ...]:
    """The evidence: who answered, what differs, of what kind, how sure it is, what to do next.

    At most 20 lines of 80 cells with its title. If there is more, suspects are left out first.
    """
    if not experiment.starts:
        return ()
    lines: list[str] = []
    for label, text in (
        *start_rows(experiment),
        *request_rows(experiment.starts, decision),
        *difference_rows(experiment, differences),
    ):
        lines.append(_labelled(label, text))
    after = []
    for label, text in (*_certainty(decision), *_next(decision, differences, context)):
        after.append(_labelled(label, text))
    room = _ROWS - _rows(lines) - _rows(after)
    for index, sentence in enumerate(suspects(experiment, differences)[:_SUSPECTS]):
        line = _labelled("" if index else "suspects", sentence)
        room -= _rows([line])
        if room < 0:
            break
        lines.append(line)
    return (text_table("Evidence", (*lines, *after)),)


def _labelled(label: str, text: str) -> str:
    return f"{label or '·':<{_LABEL}}{text}"


def _rows(lines: Sequence[str]) -> int:
    from ci_doctor.render.layout import wrap

    return sum(len(wrap(line, _WIDTH, first="  ", rest="    ")) for line in lines)


def _certainty(decision: Decision) -> Iterator[tuple[str, str]]:
    test = decision.test
    if test:
        best = f"at best {test.smallest_p:.3g} with {test.labelings} labelings"
        yield "test", f"p {test.p:.3g}, {best}; level {test.level:.3g}"
    if decision.risk:
        yield "risk", decision.risk


def _next(
    decision: Decision, differences: Sequence[AnswerDifference], context: Context
) -> Iterator[tuple[str, str]]:
    if decision.settle:
        yield "to settle", decision.settle
    if differences:
        yield "next", f"`{replay_command(differences[0], context)}`"

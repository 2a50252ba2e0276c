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
from ci_doctor.model.table import Row, Table, row
from ci_doctor.render.table_layout import table_lines

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
) -> tuple[Table, ...]:
    """The evidence: who answered, what differs, of what kind, how sure it is, what to do next.

    At most 20 lines of 80 cells with its title. If there is more, suspects are left out first.
    """
    if not experiment.starts:
        return ()
    before = [
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
    if differences:
        yield row("next", f"`{replay_command(differences[0], context)}`")

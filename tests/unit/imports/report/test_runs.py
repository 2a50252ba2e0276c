# SPDX-License-Identifier: Apache-2.0
"""Processes, runs and cases, as the report has them."""

import msgspec

from ci_doctor.imports.analyse.hazard import HazardKind
from ci_doctor.imports.report.runs import attempts, cases, tables
from ci_doctor.model.outcome import CaseOutcome
from tests.support.tables import lines_of
from tests.unit.imports.hazards_of import (
    FIRED,
    NOT_MET,
    a_hazard,
    a_held_run,
    a_process,
    a_run,
    an_investigation,
)


def test_every_run_is_an_attempt_that_says_whether_it_ended_as_the_recorded_one() -> None:
    run = msgspec.structs.replace(a_held_run(NOT_MET, exit_code=1), ended_as_recorded=False)

    recorded, held = attempts(
        an_investigation(a_hazard(), confirmed=(((run,), run),), runs=(run,)),
        {1: "held-1.stderr"},
    )

    assert (recorded.name, recorded.ok) == ("recorded", True)
    assert (held.ok, held.log, held.facts["same_end_as_recorded"]) == (
        False,
        "held-1.stderr",
        False,
    )
    assert held.facts["fired"] is True


def test_cases_count_hazards_and_one_passes_where_there_is_none() -> None:
    assert [
        case.outcome for case in cases(an_investigation(FIRED, a_hazard(HazardKind.FAILED, "x")))
    ] == [
        CaseOutcome.FAILED,
        CaseOutcome.ERROR,
    ]
    assert [case.outcome for case in cases(an_investigation())] == [CaseOutcome.PASSED]
    assert cases(an_investigation(recorded=a_run())) == ()


def test_processes_are_listed_with_their_command_and_figures_and_cut_short() -> None:
    processes = [a_process(pid=number) for number in range(9)]

    (recorded,) = tables(an_investigation(recorded=a_run(*processes)))

    lines = lines_of(recorded)
    assert lines[0].split() == ["Python", "modules", "threads", "command"]
    assert lines[1].split() == ["0", "3.11.7", "0", "0", "python3", "app.py"]
    assert lines[-1] == "… and 3 more"


def test_each_interpreter_has_its_answer() -> None:
    answers = {"/a/python3": True, "/b/python3": False, "/c/python3": None}

    _, interpreters = tables(an_investigation(interpreters=answers))

    assert [line.split()[1].rstrip(":") for line in lines_of(interpreters)] == [
        "exposed",
        "immune",
        "unknown",
    ]

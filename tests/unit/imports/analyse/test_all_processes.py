# SPDX-License-Identifier: Apache-2.0
"""The hazards of all processes of a run."""

from ci_doctor.imports.analyse.all_processes import find_in_all
from ci_doctor.imports.record.recorded import RecordedProcess
from tests.unit.imports.hazards_of import a_run
from tests.unit.imports.traces import Trace, cycle


def replacing() -> RecordedProcess:
    trace = Trace()
    trace.background()
    trace.load(1, "lazy", replaced=True)
    trace.ask(0, "lazy")
    return trace.process()


def test_an_immune_interpreter_is_spared_from_self_replacing_modules_alone() -> None:
    run = a_run(replacing(), cycle("b").process())

    immune = find_in_all(run, {"/py": False})
    exposed = find_in_all(run, {"/py": True})

    assert [hazard.modules for hazard in immune.hazards] == [("a", "b")]
    assert [hazard.modules for hazard in immune.spared] == [("lazy",)]
    assert [hazard.modules for hazard in exposed.hazards] == [("lazy",), ("a", "b")]
    assert exposed.spared == ()


def test_an_interpreter_that_could_not_be_checked_is_not_taken_for_immune() -> None:
    assert len(find_in_all(a_run(replacing()), {"/py": None}).hazards) == 1

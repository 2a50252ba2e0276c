# SPDX-License-Identifier: Apache-2.0
"""The findings of an investigation."""

from typing import Any

import msgspec
import pytest

from ci_doctor.imports.confirm import Investigation
from ci_doctor.imports.crossings import CYCLE, SUBMODULE
from ci_doctor.imports.one_module import FAILED
from ci_doctor.imports.report import findings
from ci_doctor.imports.rules import RULES
from ci_doctor.model.facts.import_race import Escape, Site
from ci_doctor.model.finding import Finding, Severity
from tests.unit.imports.hazards_of import (
    FIRED,
    MET,
    NOT_MET,
    RUN,
    a_hazard,
    a_held_run,
    a_process,
    a_run,
    an_import,
    an_investigation,
)


def of(what: Investigation) -> list[tuple[str, Severity]]:
    return [(finding.rule, finding.severity) for finding in findings(what, {})]


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (an_investigation(FIRED), [("import-race/self-replacing", Severity.ERROR)]),
        (
            an_investigation(a_hazard(CYCLE, "a", "b")),
            [("import-race/cycle", Severity.WARNING)],
        ),
        (
            an_investigation(a_hazard(SUBMODULE, "a", "a.b")),
            [("import-race/submodule-order", Severity.WARNING)],
        ),
        (
            an_investigation(a_hazard(FAILED)),
            [("import-race/failed-import", Severity.WARNING)],
        ),
        (
            an_investigation(a_hazard(), confirmed=(((RUN,), RUN),)),
            [("import-race/self-replacing", Severity.ERROR)],
        ),
        (
            an_investigation(a_hazard(), confirmed=(((RUN,), None),)),
            [("import-race/not-confirmed", Severity.NOTE)],
        ),
        (
            an_investigation(a_hazard(), confirmed=()),
            [("import-race/not-settled", Severity.WARNING)],
        ),
        (
            an_investigation(spared=(a_hazard(),)),
            [("import-race/interpreter-immune", Severity.NOTE)],
        ),
        (an_investigation(recorded=a_run()), [("import-race/not-recorded", Severity.WARNING)]),
        (
            an_investigation(recorded=a_run(a_process(), exit_code=1)),
            [("import-race/command-failed", Severity.WARNING)],
        ),
        (
            an_investigation(FIRED, recorded=a_run(a_process(), exit_code=1)),
            [("import-race/self-replacing", Severity.ERROR)],
        ),
    ],
)
def test_each_standing_has_its_rule_and_severity(
    what: Investigation, expected: list[tuple[str, Severity]]
) -> None:
    assert of(what) == expected
    assert {rule for rule, _ in expected} <= {rule.id for rule in RULES}


def only(what: Investigation, excerpts: dict[int, str] | None = None) -> Finding:
    (finding,) = findings(what, excerpts or {})
    return finding


def test_a_finding_names_both_imports_where_the_thread_was_started_and_how_close_it_was() -> None:
    first = msgspec.structs.replace(
        an_import("worker", "lazy", 3),
        names=("Thing",),
        thread_started_at=Site(file="app.py", line=7, module="__main__"),
        chain=(
            Site(file="app.py", line=2, module="__main__"),
            Site(file="app.py", line=3, module="__main__"),
        ),
    )

    finding = only(an_investigation(a_hazard(first=first)))

    assert "threads worker and MainThread" in finding.summary
    places = [(each.file, each.line) for each in finding.evidence]
    assert places == [("app.py", 3), ("app.py", 9), (None, None)]
    excerpt = finding.evidence[0].excerpt or ""
    assert excerpt.splitlines() == [
        "thread worker imports lazy (Thing)",
        "started at app.py:7",
        "while __main__ runs app.py:2",
    ]
    assert finding.evidence[2].excerpt == "50 ms apart"
    assert (
        finding.remedy
        == "write `from lazy import Thing` at the top of app.py, before line 7 starts the thread"
    )


def test_a_confirmed_finding_quotes_the_run_in_which_it_fired() -> None:
    run = a_held_run(NOT_MET, number=4, exit_code=1)

    finding = only(an_investigation(a_hazard(), confirmed=(((run,), run),)), {4: "ImportError: no"})

    assert (
        finding.evidence[-1].excerpt
        == "the run with the delay ended with exit code 1\nImportError: no"
    )


def test_a_run_that_ended_well_is_not_quoted() -> None:
    finding = only(an_investigation(a_hazard(), confirmed=(((RUN,), RUN),)), {1: "a warning"})

    assert finding.evidence[-1].excerpt == "the run with the delay ended with exit code 0"


@pytest.mark.parametrize(
    ("run", "said"),
    [(RUN, "no other thread came within 2.0 s"), (a_held_run(MET), "brought the two together")],
)
def test_a_hazard_that_did_not_fire_says_what_was_tried(run: Any, said: str) -> None:
    assert said in only(an_investigation(a_hazard(), confirmed=(((run,), None),))).summary


def test_children_that_are_not_followed_are_named_once_for_each_reason() -> None:
    escapes = tuple(Escape(argv=("python", "-I", str(number)), why="-I") for number in range(3))

    finding = only(an_investigation(recorded=a_run(a_process(escapes=escapes))))

    assert (finding.rule, finding.severity) == ("import-race/not-followed", Severity.WARNING)
    assert finding.summary.startswith("3 of the Pythons")


def test_the_same_modules_at_other_places_and_in_other_processes_are_one_finding() -> None:
    other = a_hazard(pid=2, second=an_import("MainThread", "lazy", 20))

    finding = only(
        an_investigation(a_hazard(), other, recorded=a_run(a_process(), a_process(pid=2)))
    )

    assert (
        finding.evidence[2].excerpt
        == "50 ms apart\nthe same at 1 more pairs of places\nin process 1, 2"
    )

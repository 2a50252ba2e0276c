# SPDX-License-Identifier: Apache-2.0
"""What a recording means: the verdict, the findings with their places, and the facts."""

from typing import Any

import msgspec
import pytest

from ci_doctor.imports.analyse.hazard import Closeness, Hazard, Kind
from ci_doctor.imports.confirm.delays import grouped
from ci_doctor.imports.confirm.run import Confirmation
from ci_doctor.imports.record.events import Escape, Held, Site
from ci_doctor.imports.report.conclude import Seen, Standing, conclude, judge
from ci_doctor.imports.report.findings import findings
from ci_doctor.imports.report.report import attempts, cases, facts, sections
from ci_doctor.model.finding import Finding, Severity
from ci_doctor.model.outcome import CaseOutcome
from ci_doctor.model.rules import RULES
from ci_doctor.model.verdict import Verdict
from tests.support.tables import lines_of
from tests.unit.imports.hazards_of import a_hazard, a_held_run, a_process, a_run, an_import

HELD = a_process(Held(t=1, n=0, k=1, name="lazy", limit_ns=2, met=False))
MET = a_process(Held(t=1, n=0, k=1, name="lazy", limit_ns=2, met=True))


def seen(*hazards: Hazard, confirmed: tuple[Any, ...] | None = None, **fields: Any) -> Seen:
    """`confirmed`: for each group the runs that were made, and the one in which it fired."""
    groups = grouped(hazards)
    made = tuple(
        Confirmation(candidate=group, runs=runs, fired_in=fired_in)
        for group, (runs, fired_in) in zip(groups, confirmed or (), strict=False)
    )
    judged = judge(groups, made, confirming=confirmed is not None)
    known = {"recorded": a_run(a_process()), "confirming": confirmed is not None}
    return Seen(judged=judged, **{**known, **fields})


FIRED = a_hazard(closeness=Closeness.FIRED)
RUN = a_held_run(HELD)
ENDED_OTHERWISE = msgspec.structs.replace(a_held_run(HELD, exit_code=1), ended_as_recorded=False)
MET_AND_ENDED_OTHERWISE = msgspec.structs.replace(
    a_held_run(MET, exit_code=1), ended_as_recorded=False
)


@pytest.mark.parametrize(
    ("what", "verdict", "said"),
    [
        (seen(), Verdict.PASS, "no import race in 1 process"),
        (
            seen(FIRED),
            Verdict.REGRESSION,
            "1 import race can happen here; 1 fired in the recorded run",
        ),
        (
            seen(FIRED, recorded=a_run(a_process(), exit_code=1)),
            Verdict.REGRESSION,
            "which then ended with exit code 1",
        ),
        (
            seen(FIRED, a_hazard(Kind.FAILED, "x")),
            Verdict.REGRESSION,
            "`--confirm` settles the others",
        ),
        (seen(a_hazard()), Verdict.INCONCLUSIVE, "`--confirm` settles it"),
        (
            seen(a_hazard(), confirmed=(((RUN,), RUN),)),
            Verdict.REGRESSION,
            "1 fired once the right import was delayed",
        ),
        (seen(a_hazard(), confirmed=(((RUN,), None),)), Verdict.PASS, "did not make it fire"),
        (
            seen(a_hazard(), confirmed=(((a_held_run(),), None),)),
            Verdict.INCONCLUSIVE,
            "could not decide it",
        ),
        (seen(a_hazard(), confirmed=()), Verdict.INCONCLUSIVE, "could not decide it"),
        (
            seen(a_hazard(), confirmed=(((ENDED_OTHERWISE,), None),)),
            Verdict.INCONCLUSIVE,
            "could not decide it",
        ),
        (
            seen(a_hazard(), confirmed=(((MET_AND_ENDED_OTHERWISE,), None),)),
            Verdict.PASS,
            "did not make it fire",
        ),
        (seen(is_whole=False), Verdict.INCONCLUSIVE, "more than can be compared"),
        (
            seen(a_hazard(), confirmed=(((RUN,), None),), is_whole=False),
            Verdict.INCONCLUSIVE,
            "than can be compared",
        ),
        (seen(FIRED, is_whole=False), Verdict.REGRESSION, "1 fired in the recorded run"),
        (seen(recorded=a_run()), Verdict.VOID, "nothing was recorded"),
        (
            seen(recorded=a_run(a_process(), unreadable=("1.trace: damaged",))),
            Verdict.VOID,
            "1 trace cannot be read",
        ),
        (seen(isolated="-I (ignores PYTHONPATH)"), Verdict.VOID, "-I (ignores PYTHONPATH)"),
        (seen(recorded=a_run(a_process(), exit_code=3)), Verdict.INCONCLUSIVE, "exit code 3"),
        (
            seen(recorded=a_run(a_process(), exit_code=None, signal="SIGSEGV")),
            Verdict.INCONCLUSIVE,
            "SIGSEGV",
        ),
        (
            seen(recorded=a_run(a_process(), exit_code=None, signal="SIGINT", timed_out=True)),
            Verdict.PASS,
            "no import",
        ),
        (seen(spared=(a_hazard(),)), Verdict.PASS, "immune"),
    ],
)
def test_the_verdict_is_never_better_than_what_is_known(
    what: Seen, verdict: Verdict, said: str
) -> None:
    conclusion = conclude(what)

    assert conclusion.verdict is verdict
    assert said in conclusion.summary


def of(what: Seen) -> list[tuple[str, Severity]]:
    return [(finding.rule, finding.severity) for finding in findings(what, {})]


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (seen(FIRED), [("import-race/self-replacing", Severity.ERROR)]),
        (seen(a_hazard(Kind.CYCLE, "a", "b")), [("import-race/cycle", Severity.WARNING)]),
        (
            seen(a_hazard(Kind.SUBMODULE, "a", "a.b")),
            [("import-race/submodule-order", Severity.WARNING)],
        ),
        (seen(a_hazard(Kind.FAILED)), [("import-race/failed-import", Severity.WARNING)]),
        (
            seen(a_hazard(), confirmed=(((RUN,), RUN),)),
            [("import-race/self-replacing", Severity.ERROR)],
        ),
        (
            seen(a_hazard(), confirmed=(((RUN,), None),)),
            [("import-race/not-confirmed", Severity.NOTE)],
        ),
        (seen(a_hazard(), confirmed=()), [("import-race/not-settled", Severity.WARNING)]),
        (seen(spared=(a_hazard(),)), [("import-race/interpreter-immune", Severity.NOTE)]),
        (seen(recorded=a_run()), [("import-race/not-recorded", Severity.WARNING)]),
        (
            seen(recorded=a_run(a_process(), exit_code=1)),
            [("import-race/command-failed", Severity.WARNING)],
        ),
        (
            seen(FIRED, recorded=a_run(a_process(), exit_code=1)),
            [("import-race/self-replacing", Severity.ERROR)],
        ),
    ],
)
def test_each_standing_has_its_rule_and_severity(
    what: Seen, expected: list[tuple[str, Severity]]
) -> None:
    assert of(what) == expected
    assert all(rule in RULES for rule, _ in expected)


def only(what: Seen, excerpts: dict[int, str] | None = None) -> Finding:
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

    finding = only(seen(a_hazard(first=first)))

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
    assert finding.remedy == "import it first"


def test_a_confirmed_finding_quotes_the_run_in_which_it_fired() -> None:
    run = a_held_run(HELD, number=4, exit_code=1)

    finding = only(seen(a_hazard(), confirmed=(((run,), run),)), {4: "ImportError: no"})

    assert (
        finding.evidence[-1].excerpt
        == "the run with the delay ended with exit code 1\nImportError: no"
    )


def test_a_run_that_ended_well_is_not_quoted() -> None:
    finding = only(seen(a_hazard(), confirmed=(((RUN,), RUN),)), {1: "a warning"})

    assert finding.evidence[-1].excerpt == "the run with the delay ended with exit code 0"


@pytest.mark.parametrize(
    ("run", "said"),
    [(RUN, "no other thread came within 2 s"), (a_held_run(MET), "brought the two together")],
)
def test_a_hazard_that_did_not_fire_says_what_was_tried(run: Any, said: str) -> None:
    assert said in only(seen(a_hazard(), confirmed=(((run,), None),))).summary


def test_children_that_are_not_followed_are_named_once_for_each_reason() -> None:
    escapes = tuple(
        Escape(t=1, n=0, argv=("python", "-I", str(number)), why="-I") for number in range(3)
    )

    finding = only(seen(recorded=a_run(a_process(escapes=escapes))))

    assert (finding.rule, finding.severity) == ("import-race/not-followed", Severity.WARNING)
    assert finding.summary.startswith("3 of the Pythons")


def test_the_same_modules_at_other_places_and_in_other_processes_are_one_finding() -> None:
    other = a_hazard(pid=2, second=an_import("MainThread", "lazy", 20))

    finding = only(seen(a_hazard(), other, recorded=a_run(a_process(), a_process(pid=2))))

    assert (
        finding.evidence[2].excerpt
        == "50 ms apart\nthe same at 1 more pairs of places\nin process 1, 2"
    )


def test_facts_are_json_and_hold_every_hazard() -> None:
    known = facts(seen(a_hazard(), a_hazard(pid=2), interpreters={"/usr/bin/python3": None}))

    decoded = msgspec.json.decode(msgspec.json.encode(known))
    assert [hazard["pid"] for hazard in decoded["hazards"]] == [1, 2]
    assert decoded["hazards"][0]["standing"] == "possible"
    assert decoded["interpreters"] == {"/usr/bin/python3": "unknown"}
    assert decoded["counts"]["possible"] == 1


def test_every_run_is_an_attempt_that_says_whether_it_ended_as_the_recorded_one() -> None:
    run = msgspec.structs.replace(a_held_run(HELD, exit_code=1), ended_as_recorded=False)

    recorded, held = attempts(
        seen(a_hazard(), confirmed=(((run,), run),)), (run,), {1: "held-1.stderr"}
    )

    assert (recorded.name, recorded.ok) == ("recorded", True)
    assert (held.ok, held.log, held.facts["same_end_as_recorded"]) == (
        False,
        "held-1.stderr",
        False,
    )
    assert held.facts["fired"] is True


def test_cases_count_hazards_and_one_passes_where_there_is_none() -> None:
    assert [case.outcome for case in cases(seen(FIRED, a_hazard(Kind.FAILED, "x")))] == [
        CaseOutcome.FAILED,
        CaseOutcome.ERROR,
    ]
    assert [case.outcome for case in cases(seen())] == [CaseOutcome.PASSED]
    assert cases(seen(recorded=a_run())) == ()


def test_processes_are_listed_and_cut_short() -> None:
    processes = [a_process(pid=number) for number in range(9)]

    (recorded,) = sections(seen(recorded=a_run(*processes)))

    assert lines_of(recorded)[-1] == "… and 3 more"


def test_every_standing_is_counted() -> None:
    assert set(facts(seen())["counts"]) >= {str(standing) for standing in Standing}

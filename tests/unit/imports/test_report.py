# SPDX-License-Identifier: Apache-2.0
"""The verdict, facts, runs and outcome of an investigation."""

import signal
from typing import Any

import msgspec
import pytest

from ci_doctor.imports.confirm import HeldRun, Investigation
from ci_doctor.imports.crossings import CYCLE, SUBMODULE
from ci_doctor.imports.hazards import RULES, find_hazards, remedy
from ci_doctor.imports.one_module import FAILED
from ci_doctor.imports.report import (
    attempts,
    cases,
    conclude,
    facts,
    findings,
    interrupted,
    race_outcome,
    tables,
)
from ci_doctor.model.facts.import_race import Closeness, Escape, Remedy, Site, Standing
from ci_doctor.model.outcome import CaseOutcome, ErrorKind, Finding, Severity, Verdict
from tests.support.tables import lines_of
from tests.unit.imports.hazards_of import (
    FIRED,
    LOADED,
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
from tests.unit.imports.traces import Trace, only_hazard, played

ENDED_OTHERWISE = msgspec.structs.replace(a_held_run(NOT_MET, exit_code=1), ended_as_recorded=False)
MET_AND_ENDED_OTHERWISE = msgspec.structs.replace(
    a_held_run(MET, exit_code=1), ended_as_recorded=False
)


def tried(*runs: HeldRun, **fields: Any) -> Investigation:
    """One hazard, for which these runs with a delay were made: it fired in none."""
    return an_investigation(a_hazard(), confirmed=((runs, None),), **fields)


NOTHING_RACES = an_investigation()
NOT_RECORDED = an_investigation(recorded=a_run())
ONE_FIRED = an_investigation(FIRED)
COMMAND_FAILED = an_investigation(recorded=a_run(a_process(LOADED), exit_code=3))
FIRED_AND_FAILED = an_investigation(FIRED, recorded=a_run(a_process(LOADED), exit_code=1))
CONFIRMED = an_investigation(a_hazard(), confirmed=(((RUN,), RUN),))
NO_RUN = an_investigation(a_hazard(), confirmed=())


@pytest.mark.parametrize(
    ("what", "verdict", "said"),
    [
        (NOTHING_RACES, Verdict.PASS, "no import race in 1 process (1 module, 0 threads)"),
        (
            an_investigation(recorded=a_run(a_process(), a_process(pid=2))),
            Verdict.VOID,
            "no module was recorded in 2 processes, so nothing could race",
        ),
        (ONE_FIRED, Verdict.FAILED, "1 import race can happen here; 1 fired in the recorded run"),
        (FIRED_AND_FAILED, Verdict.FAILED, "which then ended with exit code 1"),
        (
            an_investigation(FIRED, a_hazard(FAILED, "x")),
            Verdict.FAILED,
            "`--confirm` settles the others",
        ),
        (an_investigation(a_hazard()), Verdict.INCONCLUSIVE, "`--confirm` settles it"),
        (CONFIRMED, Verdict.FAILED, "1 fired once the right import was delayed"),
        (tried(RUN), Verdict.PASS, "did not make it fire"),
        (tried(a_held_run()), Verdict.INCONCLUSIVE, "could not decide it"),
        (NO_RUN, Verdict.INCONCLUSIVE, "could not decide it"),
        (tried(ENDED_OTHERWISE), Verdict.INCONCLUSIVE, "could not decide it"),
        (tried(MET_AND_ENDED_OTHERWISE), Verdict.PASS, "did not make it fire"),
        (
            an_investigation(a_hazard(closeness=Closeness.HANDED_OUT), confirmed=(((RUN,), None),)),
            Verdict.PASS,
            "did no harm in 1 run with a delay",
        ),
        (
            an_investigation(recorded=a_run(a_process(unjudged=("greenlets",)))),
            Verdict.VOID,
            "several greenlets import in one thread",
        ),
        (
            an_investigation(FIRED, recorded=a_run(a_process(unjudged=("fibers",)))),
            Verdict.FAILED,
            "1 fired in the recorded run",
        ),
        (an_investigation(is_whole=False), Verdict.INCONCLUSIVE, "more than can be compared"),
        (tried(RUN, is_whole=False), Verdict.INCONCLUSIVE, "than can be compared"),
        (an_investigation(FIRED, is_whole=False), Verdict.FAILED, "1 fired in the recorded run"),
        (NOT_RECORDED, Verdict.VOID, "nothing was recorded"),
        (
            an_investigation(recorded=a_run(a_process(), unreadable=("1.trace: damaged",))),
            Verdict.VOID,
            "1 trace cannot be read",
        ),
        (
            an_investigation(isolated="-I (ignores PYTHONPATH)"),
            Verdict.VOID,
            "-I (ignores PYTHONPATH)",
        ),
        (COMMAND_FAILED, Verdict.INCONCLUSIVE, "exit code 3"),
        (
            an_investigation(recorded=a_run(a_process(LOADED), exit_code=None, signal="SIGSEGV")),
            Verdict.INCONCLUSIVE,
            "SIGSEGV",
        ),
        (
            an_investigation(
                recorded=a_run(a_process(LOADED), exit_code=None, signal="SIGINT", timed_out=True)
            ),
            Verdict.PASS,
            "no import",
        ),
    ],
)
def test_the_verdict_is_never_better_than_what_is_known(
    what: Investigation, verdict: Verdict, said: str
) -> None:
    found, summary = conclude(what)

    assert found is verdict
    assert said in summary


def test_facts_are_json_and_hold_every_hazard() -> None:
    known = facts(
        an_investigation(a_hazard(), a_hazard(pid=2), interpreters={"/usr/bin/python3": None})
    )

    decoded = msgspec.json.decode(msgspec.json.encode(known))
    assert [hazard["pid"] for hazard in decoded["hazards"]] == [1, 2]
    assert decoded["hazards"][0]["standing"] == "possible"
    assert decoded["interpreters"] == {"/usr/bin/python3": "unknown"}
    assert decoded["counts"]["possible"] == 1
    assert set(decoded["counts"]) >= {str(standing) for standing in Standing}


def test_every_run_is_an_attempt_that_says_whether_it_ended_as_the_recorded_one() -> None:
    run = ENDED_OTHERWISE
    what = an_investigation(a_hazard(), confirmed=(((run,), run),), runs=(run,))

    recorded, held = attempts(what, {1: "held-1.stderr"})

    assert (recorded.name, recorded.ok) == ("recorded", True)
    assert (held.ok, held.log, held.facts["same_end_as_recorded"]) == (
        False,
        "held-1.stderr",
        False,
    )
    assert held.facts["fired"] is True


def test_cases_count_hazards_and_one_passes_where_there_is_none() -> None:
    assert [case.outcome for case in cases(an_investigation(FIRED, a_hazard(FAILED, "x")))] == [
        CaseOutcome.FAILED,
        CaseOutcome.ERROR,
    ]
    assert [case.outcome for case in cases(NOTHING_RACES)] == [CaseOutcome.PASSED]
    assert cases(NOT_RECORDED) == ()


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


def test_it_has_all_parts_of_a_report() -> None:
    outcome = race_outcome(ONE_FIRED, {}, {})

    assert outcome.verdict is Verdict.FAILED
    assert [finding.rule for finding in outcome.findings] == ["import-race/self-replacing"]
    assert [table.title for table in outcome.tables] == ["Recorded"]
    assert [attempt.name for attempt in outcome.attempts] == ["recorded"]
    assert len(outcome.cases) == 1


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (signal.SIGINT, ErrorKind.SIGINT),
        (signal.SIGTERM, ErrorKind.SIGTERM),
        (signal.SIGHUP, ErrorKind.SIGHUP),
    ],
)
def test_a_signal_takes_the_verdict_and_leaves_the_evidence(
    number: signal.Signals, kind: ErrorKind
) -> None:
    whole = race_outcome(ONE_FIRED, {}, {})

    outcome = interrupted(whole, number)

    assert outcome.verdict is None
    assert outcome.error is not None
    assert outcome.error.kind is kind
    assert number.name in outcome.summary
    assert outcome.findings == whole.findings


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (ONE_FIRED, {"self-replacing": Severity.ERROR}),
        (FIRED_AND_FAILED, {"self-replacing": Severity.ERROR}),
        (CONFIRMED, {"self-replacing": Severity.ERROR}),
        (tried(RUN), {}),
        (NO_RUN, {"not-settled": Severity.WARNING}),
        (NOT_RECORDED, {"not-recorded": Severity.WARNING}),
        (COMMAND_FAILED, {"command-failed": Severity.WARNING}),
        (an_investigation(a_hazard(CYCLE, "a", "b")), {"cycle": Severity.WARNING}),
        (an_investigation(a_hazard(SUBMODULE, "a", "a.b")), {"submodule-order": Severity.WARNING}),
        (an_investigation(a_hazard(FAILED)), {"failed-import": Severity.WARNING}),
    ],
)
def test_each_standing_has_its_rule_and_severity(
    what: Investigation, expected: dict[str, Severity]
) -> None:
    found = [(finding.rule, finding.severity) for finding in findings(what, {})]

    assert found == [(f"import-race/{rule}", severity) for rule, severity in expected.items()]
    assert {rule for rule, _ in found} <= {rule.id for rule in RULES}


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
        == "write `from lazy import Thing` in app.py before line 7, which starts the thread"
    )


def test_a_confirmed_finding_quotes_the_run_in_which_it_fired() -> None:
    run = a_held_run(NOT_MET, number=4, exit_code=1)

    finding = only(an_investigation(a_hazard(), confirmed=(((run,), run),)), {4: "ImportError: no"})

    assert (
        finding.evidence[-1].excerpt
        == "the run with the delay ended with exit code 1\nImportError: no"
    )


def test_a_run_that_ended_well_is_not_quoted() -> None:
    finding = only(CONFIRMED, {1: "a warning"})

    assert finding.evidence[-1].excerpt == "the run with the delay ended with exit code 0"


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


def of_thread_started_in(module: str, name: str, *names: str) -> Remedy:
    trace = Trace()
    trace.background(module)
    trace.load(1, name, replaced=True)
    trace.ask(0, name, *names)
    return remedy(find_hazards(trace.process()).hazards[0])


MOVE = "write `{}` in app.py before line 5, which starts the thread"


@pytest.mark.parametrize(
    ("module", "names", "rule", "move"),
    [
        ("app.core", ("lazy", "Thing", "Other"), "app.core=lazy:Thing,Other", None),
        ("__main__:app.cli", ("lazy",), "app.cli=lazy", None),
        ("app", ("lazy", "*"), "app=lazy", None),
        ("__main__", ("lazy", "Thing"), None, MOVE.format("from lazy import Thing")),
        ("lazy", ("lazy.sub",), None, MOVE.format("import lazy.sub")),
    ],
    ids=["a module", "run with -m", "a star is no attribute", "a script", "under the trigger"],
)
def test_the_module_that_starts_the_thread_is_the_trigger_or_gets_an_import_to_move(
    module: str, names: tuple[str, ...], rule: str | None, move: str | None
) -> None:
    advice = of_thread_started_in(module, *names)

    assert (advice.rule, advice.move) == (rule, move)
    if rule is None:
        assert advice.text == move
    else:
        assert f"`ci-doctor preload install --rule {rule}`" in advice.text
        assert f"`ci-doctor run --preload {rule} -- CMD`" in advice.text


def test_of_a_submodule_order_the_package_is_loaded_first() -> None:
    loads = "1 ask pkg; 1 begin pkg; 1 ask pkg.sub name; 1 begin pkg.sub; 1 end; 1 end"
    advice = remedy(only_hazard(played(f"thread app; {loads}; 0 ask pkg.sub name")))
    assert advice.rule == "app=pkg;pkg.sub:name"
    assert "'app=pkg;pkg.sub:name'" in advice.text


def test_a_failed_import_is_not_cured_by_a_preload() -> None:
    advice = remedy(only_hazard(played("thread app; 1 load broken failed; 0 ask broken")))
    assert advice.rule is None
    assert advice.move is not None
    assert "import broken" in advice.move

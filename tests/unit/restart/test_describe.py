# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from msgspec import to_builtins

from ci_doctor.model.outcome import CaseOutcome, ErrorKind
from ci_doctor.model.verdict import Verdict
from ci_doctor.restart import describe
from ci_doctor.restart.judge import judge
from ci_doctor.restart.observed import Counts, Observation, Phase, RestartEnding
from tests.support.tables import lines_of
from tests.unit.restart.observations import GOOD, TERMS, seen


def test_where_nothing_was_killed_no_case_passes() -> None:
    observation = Observation(requests=4, phases={Phase.BASELINE: Counts(failed=4)})
    cases = describe.cases(judge(observation, TERMS), reached=False, reason="nothing was answered")
    assert {(case.outcome.value, case.message) for case in cases} == {
        ("error", "nothing was answered")
    }


def test_the_tables_hold_values_for_each_phase_and_the_restart_and_fit_a_terminal() -> None:
    requests, restart = map(lines_of, describe.tables(GOOD, TERMS))
    assert requests[0].split() == ["ok", "failed", "hung", "time", "ok/s"]
    assert [line.split()[0] for line in requests[1:]] == [phase.value for phase in Phase]
    assert requests[4].split() == ["outage", "0", "20", "0", "5.0", "s", "0"]
    assert len(requests) + len(restart) <= 17
    assert max(map(len, (*requests, *restart))) <= 78


def test_an_outcome_holds_the_verdict_the_cases_and_typed_facts() -> None:
    cwd = Path("/work")
    of = describe.outcome_of(GOOD, TERMS, (), directory=cwd / "out", cwd=cwd)
    assert (of.verdict, of.error, of.findings) == (Verdict.PASS, None, ())
    assert {case.outcome for case in of.cases} == {CaseOutcome.PASSED}
    facts = to_builtins(of.facts)
    assert (facts["version"], facts["requests"], facts["killed_at"]) == (1, 4, 2)
    assert facts["phases"]["after"]["ok"] == 8
    assert set(facts["promises"].values()) == {"kept"}
    assert (facts["identity_changed"], facts["down_s"]) == (True, 5.4)


@pytest.mark.parametrize(
    ("ending", "kind"),
    [(RestartEnding.SIGINT, ErrorKind.SIGINT), (RestartEnding.SIGHUP, ErrorKind.SIGHUP)],
)
def test_a_signal_leaves_no_verdict(ending: RestartEnding, kind: ErrorKind) -> None:
    interrupted = seen(ending=ending)
    of = describe.outcome_of(interrupted, TERMS, (), directory=Path("/out"), cwd=Path("/"))
    assert of.verdict is None
    assert of.error is not None
    assert of.error.kind is kind
    assert of.error.message == f"interrupted by {ending}; every process was stopped"

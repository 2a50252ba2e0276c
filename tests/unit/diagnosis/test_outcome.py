# SPDX-License-Identifier: Apache-2.0
"""A diagnosis as a finding, facts and a sentence; it judges nothing."""

from msgspec import structs

from ci_doctor.catalogue import all_rules
from ci_doctor.diagnosis.diagnosis import Diagnosis
from ci_doctor.diagnosis.outcome import outcome_of
from ci_doctor.model.cause import FailureClass
from ci_doctor.model.facts.diagnose import DiagnoseFacts
from ci_doctor.model.finding import Severity
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.verdict import Verdict
from tests.support.diagnoses import LINES, a_cause, a_diagnosis


def facts_of(outcome: Outcome) -> DiagnoseFacts:
    assert isinstance(outcome.facts, DiagnoseFacts)
    return outcome.facts


def test_the_first_evidence_is_the_root_line_and_the_second_its_surroundings() -> None:
    outcome = outcome_of(a_diagnosis(a_cause()))

    root, around, consequence = outcome.findings[0].evidence
    assert (root.file, root.line, root.end_line, root.excerpt) == ("server.log", 10, 10, LINES[3])
    assert (around.file, around.line, around.end_line) == ("server.log", 7, 11)
    marked = [line for line in (around.excerpt or "").split("\n") if line.startswith("> ")]
    assert marked == [f"> {LINES[3]}"]
    assert (consequence.file, consequence.line) == ("client.log", 3)


def test_a_named_cause_judges_nothing() -> None:
    outcome = outcome_of(a_diagnosis(a_cause()))

    assert (outcome.verdict, outcome.error) == (None, None)
    assert outcome.findings[0].severity is Severity.ERROR
    assert outcome.findings[0].rule == "diagnose/code-bug"
    assert "80 % sure: server.log:10: ValueError: 40 heads for 3 GPUs" in outcome.summary


def test_facts_hold_the_cause_for_programs() -> None:
    facts = facts_of(outcome_of(a_diagnosis(a_cause())))

    cause = facts.root_cause
    assert cause is not None
    assert (cause.class_, cause.retry, cause.may_be_retried) == ("code-bug", "no", False)
    assert cause.place.message == "ValueError: 40 heads for 3 GPUs"
    assert cause.fingerprint == "d36b44f3af775a6e"
    assert facts.excerpt is not None
    assert facts.excerpt.messages[2] == "    raise ValueError(text)"


def test_without_a_cause_a_note_shows_the_best_place() -> None:
    outcome = outcome_of(a_diagnosis(None))

    (finding,) = outcome.findings
    assert (finding.rule, finding.severity) == ("diagnose/no-cause", Severity.NOTE)
    assert (finding.evidence[0].file, finding.evidence[0].line) == ("server.log", 10)
    assert facts_of(outcome).root_cause is None
    assert "no cause is named" in outcome.summary


def test_no_readable_log_is_void() -> None:
    outcome = outcome_of(Diagnosis(cause=None, logs=(), unreadable={"gone.log": "No such file"}))

    assert outcome.verdict is Verdict.VOID
    assert [each.rule for each in outcome.findings] == ["diagnose/unreadable-log"]


def test_an_unreadable_log_beside_others_is_a_warning() -> None:
    diagnosis = structs.replace(a_diagnosis(a_cause()), unreadable={"x.log": "binary data"})

    outcome = outcome_of(diagnosis)

    assert outcome.verdict is None
    assert outcome.findings[1].severity is Severity.WARNING
    assert "binary data" in outcome.findings[1].summary


def test_a_cause_without_a_class_is_named_too() -> None:
    outcome = outcome_of(a_diagnosis(a_cause(class_=None)))

    assert outcome.findings[0].rule == "diagnose/unclassified"


def test_every_class_has_a_rule_in_the_catalogue() -> None:
    rules = all_rules()

    for class_ in FailureClass:
        assert rules[f"diagnose/{class_.value}"].meaning


def test_logs_that_end_well_and_hold_nothing_have_no_finding() -> None:
    ended_well = structs.replace(a_diagnosis(None), ended_well=True)

    outcome = outcome_of(ended_well)
    with_candidates = outcome_of(structs.replace(ended_well, n_candidates=1))

    assert (outcome.findings, outcome.verdict) == ((), None)
    assert [each.rule for each in with_candidates.findings] == ["diagnose/no-cause"]
    assert "the logs end well" in with_candidates.summary

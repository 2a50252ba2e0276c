# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.correctness.attempt import ExperimentProgress
from ci_doctor.correctness.localise.report import smallest_command
from ci_doctor.correctness.localise.run import GateAnswers, localise, text_of, with_request_file
from ci_doctor.correctness.localise.search import LocalisationSearch
from ci_doctor.correctness.localise.trials import (
    Localisation,
    LocalisedCause,
    Trial,
    one_by_one,
    together,
)
from ci_doctor.correctness.results import Experiment
from ci_doctor.correctness.run import judge
from ci_doctor.correctness.settings import AnswerLevel, read_comparison
from ci_doctor.correctness.verdict.validity import Decision
from ci_doctor.errors import InfraError
from ci_doctor.load.canonical import digest
from ci_doctor.load.requests import read_requests
from ci_doctor.model.outcome import Verdict
from ci_doctor.system.processes.interruption import Interruption
from ci_doctor.system.secrets.redaction import Redactor
from tests.unit.correctness.experiments import experiment, first_look
from tests.unit.correctness.localise.subjects import BODIES, subject
from tests.unit.correctness.prepared import prepared

# A start that takes longer than any budget.
ENDLESS_S = 1e12


def regression() -> Experiment:
    starts = [replace(each, duration_s=ENDLESS_S) for each in first_look("one u", "one v")]
    return experiment(*starts)


def localised(
    directory: Path, told: list[str], made: Experiment, **settings: Any
) -> tuple[Localisation | None, Decision]:
    ready = prepared(directory, passes=1, **settings)
    decision = judge(ready, made)

    def tell(progress: ExperimentProgress) -> None:
        told.append(progress.note)

    return localise(ready, made, decision, tell, Interruption()), decision


def test_a_budget_without_time_for_a_pair_starts_nothing_and_says_so(tmp_path: Path) -> None:
    told: list[str] = []
    found, decision = localised(tmp_path, told, regression(), localise_starts=6)
    assert decision.verdict is Verdict.REGRESSION
    assert found is not None
    assert found.stopped == "the budget leaves no time for a start of each arm"
    assert not found.starts
    assert not found.has_tried
    (note,) = told
    assert note.startswith("r1 differs: up to 6 more starts find the smallest condition")


@pytest.mark.parametrize(
    ("made", "settings"),
    [(regression(), {"localise": False}), (experiment(*first_look("one u", "one u")), {})],
)
def test_what_is_turned_off_or_passes_is_not_localised(
    tmp_path: Path, made: Experiment, settings: dict[str, Any]
) -> None:
    told: list[str] = []
    found, _ = localised(tmp_path, told, made, **settings)
    assert (found, told) == (None, [])
    assert not (tmp_path / "report" / "localise").exists()


def test_a_bug_in_the_search_is_said_and_the_verdict_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("ci_doctor.correctness.localise.run.subject_of", fails)
    told: list[str] = []
    found, decision = localised(tmp_path, told, regression())
    assert (found, decision.verdict) == (None, Verdict.REGRESSION)
    assert told == ["where the arms differ is unknown: ZeroDivisionError('a bug')"]


def test_a_directory_that_cannot_be_written_is_said_and_the_verdict_stands(tmp_path: Path) -> None:
    (tmp_path / "report").write_text("a file")
    found, _ = localised(tmp_path, [], regression())
    assert found is not None
    assert "cannot write" in found.stopped


AFTER = one_by_one(["r2", "r0"])
NO_SECRETS = Redactor(())


def found(trial: Trial) -> Localisation:
    requests = LocalisationSearch(subject()).requests
    return Localisation(
        subject=subject(), conclusion=LocalisedCause(shown=(trial,)), requests=requests
    )


def command(kept: Localisation, trial: Trial) -> str:
    return smallest_command(kept, trial, ["correctness"], "out")


def test_what_comes_before_a_request_is_written_as_a_requests_file(tmp_path: Path) -> None:
    kept = with_request_file(found(AFTER), tmp_path, NO_SECRETS)
    assert kept.requests_file == f"{tmp_path.name}/smallest-request.jsonl"
    requests = read_requests(tmp_path.parent / kept.requests_file)
    assert [(each.id, each.body) for each in requests] == [("r2", BODIES[2]), ("r0", BODIES[0])]
    assert "--concurrency 1 --passes 1" in command(kept, AFTER)


def test_a_request_that_comes_twice_has_two_ids_and_keeps_its_protocol(tmp_path: Path) -> None:
    kept = found(one_by_one(["r0", "r2", "r0"]))
    named = replace(kept.requests["r2"], protocol="completions")
    with_request_file(replace(kept, requests={**kept.requests, "r2": named}), tmp_path, NO_SECRETS)
    requests = read_requests(tmp_path / "smallest-request.jsonl")
    assert [each.id for each in requests] == ["r0", "r2", "r0, time 2"]
    assert requests[1].protocol == "completions"


def test_one_request_of_the_run_needs_no_file_however_often_it_is_sent(tmp_path: Path) -> None:
    thrice = found(one_by_one(["r0"] * 3))
    assert with_request_file(thrice, tmp_path, NO_SECRETS) is thrice
    assert not list(tmp_path.iterdir())
    assert "--only r0 --concurrency 1 --passes 3" in command(thrice, one_by_one(["r0"] * 3))


def test_a_group_is_sent_together_as_often_as_it_was(tmp_path: Path) -> None:
    group = together(["r0", "r2"], 2, 3)
    kept = with_request_file(found(group), tmp_path, NO_SECRETS)
    assert len(read_requests(tmp_path / "smallest-request.jsonl")) == 2
    assert "--concurrency 2 --passes 3" in command(kept, group)


def test_a_prompt_with_a_secret_is_not_written(tmp_path: Path) -> None:
    kept = with_request_file(found(AFTER), tmp_path, Redactor(["Count to twenty"]))
    assert not list(tmp_path.iterdir())
    assert "holds a secret" in kept.notes[0]


def test_a_disk_that_refuses_it_is_a_note(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    kept = with_request_file(found(AFTER), file, NO_SECRETS)
    assert "cannot write" in kept.notes[0]


def output(text: str, logprob: float) -> dict[str, Any]:
    choice = {"index": 0, "text": text, "logprobs": {"token_logprobs": [logprob]}}
    return {"choices": [choice]}


A, B, C = output("so", -0.5), output("so", -0.501), output("no", -0.5)
OUTPUTS = {digest(each): each for each in (A, B, C)}


@pytest.mark.parametrize(
    ("level", "limit", "same"),
    [
        (AnswerLevel.NUMBERS, None, False),
        (AnswerLevel.TOKENS, None, True),
        (AnswerLevel.WORDS, None, True),
        (AnswerLevel.NUMBERS, "0.01 nat", True),
        (AnswerLevel.NUMBERS, "0.0001 nat", False),
    ],
)
def test_answers_are_the_same_at_the_level_and_within_the_limit_of_the_gate(
    level: AnswerLevel, limit: str | None, same: bool
) -> None:
    gate = GateAnswers(read_comparison(level, limit), OUTPUTS)
    first, second, other = (gate.key("r0", digest(each)) for each in (A, B, C))
    assert (first == second) is same
    assert first != other


def test_an_answer_that_is_gone_is_no_answer_of_another_kind() -> None:
    gate = GateAnswers(read_comparison(AnswerLevel.WORDS, None), {})
    with pytest.raises(InfraError, match="no output has the digest"):
        gate.key("r0", "0" * 64)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"city": "K\\u00f6ln"}', '{"city": "Köln"}'),
        ({"city": "Köln"}, '{"city": "Köln"}'),  # as TGI writes them
        ("{cut", "{cut"),
        (None, ""),
    ],
)
def test_what_an_answer_says_is_the_arguments_of_its_call(arguments: object, text: str) -> None:
    choice = {"message": {"content": None, "tool_calls": [{"name": "at", "arguments": arguments}]}}
    assert text_of(choice) == text

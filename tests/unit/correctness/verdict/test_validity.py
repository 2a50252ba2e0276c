# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.correctness.report.findings import unended_flaw
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import Arm, EvidencePolicy, Rules
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.correctness.verdict.starts import ArmStart
from ci_doctor.correctness.verdict.validity import (
    Decision,
    without_flaws,
)
from ci_doctor.load.looks import AnswerLooks, LooksOfAnswers
from ci_doctor.load.requests import Request
from ci_doctor.model.facts.correctness import ControlOutcome, ControlResult
from ci_doctor.model.outcome import Verdict

IDS = ["r0", "r1", "r2"]
CHANGED = ControlOutcome(result=ControlResult.CHANGED, request="r0")
PARTLY = ControlOutcome(result=ControlResult.PARTLY, request="r0")
SAME = ControlOutcome(result=ControlResult.SAME, request="r0")
UNANSWERED = ControlOutcome(result=ControlResult.UNANSWERED, request="r0", error="HTTP 500")
UNDECIDED = ControlOutcome(result=ControlResult.UNDECIDED, request="r0")
IMPOSSIBLE = ControlOutcome(result=ControlResult.IMPOSSIBLE)
# The answers themselves are the same on both sides in most of these tests.
ANSWERS = {"r0": "x", "r1": "y", "r2": "z"}
OTHERS = {"r0": "u", "r1": "v", "r2": "w"}


def baseline(number: int = 1, **changes: Any) -> ArmStart:
    fields: dict[str, Any] = {"answers": ANSWERS, **changes}
    return ArmStart(arm=Arm.BASELINE, number=number, **fields)


def candidate(number: int = 1, **changes: Any) -> ArmStart:
    return replace(baseline(number, **changes), arm=Arm.CANDIDATE)


def verdict(*starts: ArmStart, rules: Rules | None = None) -> Verdict:
    return decide(starts, IDS, rules or Rules(), complete=True).verdict


def asked(count: int, prompt: str = "p{}", **body: Any) -> list[Request]:
    """So many different prompts; `{}` is the number of each."""
    return [
        Request(
            id=f"r{n}",
            path="/v1/completions",
            body={"prompt": prompt.format(n), **body},
            line=n + 1,
        )
        for n in range(count)
    ]


def looks(*texts: str, ended: str = "stop", **body: Any) -> AnswerLooks:
    """Of one answer to each of as many different prompts, with the finish reason `ended`."""
    requests = asked(len(texts), **body)
    taken = LooksOfAnswers(requests)
    for request, text in zip(requests, texts, strict=True):
        choice = {"index": 0, "text": text, "finish_reason": ended}
        output = {"choices": [choice], "completion_tokens": len(text.split())}
        taken.add(request.id, output, {"model": "m"})
    return taken.value()


# --- the control ---


@pytest.mark.parametrize(
    ("control", "expected"),
    [
        (None, Verdict.PASS),
        (CHANGED, Verdict.PASS),
        (SAME, Verdict.VOID),
        (PARTLY, Verdict.VOID),
        (UNANSWERED, Verdict.VOID),
        # Labels and prompts of unknown form: a warning.
        (UNDECIDED, Verdict.PASS),
        (IMPOSSIBLE, Verdict.PASS),
    ],
)
@pytest.mark.parametrize("arm", Arm)
def test_a_changed_prompt_must_change_the_answer(
    arm: Arm, control: ControlOutcome | None, expected: Verdict
) -> None:
    controls = {Arm.BASELINE: CHANGED, Arm.CANDIDATE: CHANGED, arm: control}
    starts = baseline(control=controls[Arm.BASELINE]), candidate(control=controls[Arm.CANDIDATE])
    assert verdict(*starts) is expected


def test_the_reason_names_the_start_the_request_and_the_causes() -> None:
    decision = decide([baseline(control=SAME), candidate()], IDS, Rules(), complete=True)
    assert decision.reason == (
        "baseline A1: the server gives r0 and a changed prompt the same answer: "
        "it does not read the prompt, or a cache answers for it"
    )


def test_a_later_control_that_worked_counts_for_its_arm() -> None:
    starts = [baseline(control=UNANSWERED), baseline(2, control=CHANGED), candidate()]
    assert verdict(*starts) is Verdict.PASS


def test_a_control_without_an_answer_is_no_surprise_where_others_have_none() -> None:
    silent = {**ANSWERS, "r2": None}
    partly = baseline(control=UNANSWERED, answers=silent)
    assert verdict(partly, baseline(2), candidate(control=CHANGED)) is not Verdict.VOID


def test_the_control_of_a_start_that_failed_proves_nothing() -> None:
    failed = baseline(control=UNANSWERED, failed=True)
    assert verdict(failed, baseline(2, control=CHANGED), candidate()) is not Verdict.VOID


def test_a_candidate_that_ignores_prompts_and_answers_differently_has_changed() -> None:
    starts = [baseline(number, control=CHANGED) for number in range(1, 9)]
    broken = {"control": SAME, "answers": OTHERS, "looks": looks(*["same words"] * 3)}
    starts += [candidate(number, **broken) for number in range(1, 9)]
    assert verdict(*starts) is Verdict.REGRESSION


def test_no_green_verdict_rests_on_a_candidate_that_ignores_prompts() -> None:
    flaky = Decision(verdict=Verdict.FLAKY, reason="")
    starts = [baseline(control=CHANGED), candidate(control=SAME, answers=OTHERS)]
    assert without_flaws(flaky, starts, Rules()).verdict is Verdict.VOID
    red = replace(flaky, verdict=Verdict.REGRESSION)
    assert without_flaws(red, starts, Rules()) is red
    lenient = Rules(evidence=EvidencePolicy.REPORT)
    assert without_flaws(flaky, starts, lenient) is flaky


def test_void_evidence_can_be_a_warning() -> None:
    rules = Rules(evidence=EvidencePolicy.REPORT)
    assert verdict(baseline(control=SAME), candidate(control=SAME), rules=rules) is Verdict.PASS


# --- the answers beside each other ---


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        # One answer to every prompt.
        (looks("same words", "same words", "same words"), Verdict.VOID),
        (looks("same words", "same words", "other words"), Verdict.PASS),
        # Two prompts may well have one answer.
        (looks("same words", "same words"), Verdict.PASS),
        # A label, and a choice among labels.
        (looks("positive", "positive", "positive"), Verdict.PASS),
        (looks("a b", "a b", "a b", guided_choice=["a b", "c"]), Verdict.PASS),
        # Answers that all end at their first token.
        (looks("a", "b", "c", ended="length"), Verdict.VOID),
        (looks("a", "b", "c", ended="length", max_tokens=16), Verdict.VOID),
        (looks("a", "b", "c", ended="length", max_tokens=1), Verdict.PASS),
        (looks("a", "b", "c d", ended="length", max_tokens=16), Verdict.PASS),
        (looks("a", "b", "c", max_tokens=16), Verdict.PASS),
    ],
)
def test_one_answer_to_every_prompt_and_answers_of_one_token_prove_nothing(
    seen: AnswerLooks, expected: Verdict
) -> None:
    assert verdict(baseline(looks=seen), candidate(looks=seen)) is expected


ONE, OTHER = (AnswerLooks(models={"r0": name}) for name in "mn")


def test_one_answer_may_be_right_if_the_control_changes_it() -> None:
    one = looks("it is fine", "it is fine", "it is fine")
    starts = baseline(looks=one, control=CHANGED), candidate(looks=one, control=CHANGED)
    assert verdict(*starts) is Verdict.PASS


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        ([baseline(looks=ONE), baseline(2, looks=OTHER), candidate(looks=ONE)], Verdict.VOID),
        ([baseline(looks=ONE), candidate(looks=ONE), candidate(2, looks=OTHER)], Verdict.VOID),
        # Arms may serve two models on purpose, and an archived start was judged by its own build.
        ([baseline(looks=ONE), candidate(looks=OTHER)], Verdict.PASS),
        ([baseline(archived=True, looks=ONE), baseline(looks=OTHER), candidate()], Verdict.PASS),
    ],
)
def test_starts_of_one_arm_that_serve_two_models_prove_nothing(
    starts: list[ArmStart], expected: Verdict
) -> None:
    assert verdict(*starts) is expected


def hollow(*answers: str, prompt: str = "Name the rivers of country {}, please.") -> AnswerLooks:
    """How a server looks that gives these answers to as many prompts; `{}` is the prompt."""
    requests = asked(len(answers), prompt)
    looks = LooksOfAnswers(requests)
    for request, answer in zip(requests, answers, strict=True):
        text = answer.format(request.body["prompt"])
        looks.add(request.id, {"choices": [{"text": text, "finish_reason": "stop"}]}, {})
    return looks.value()


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (["You said: {}"] * 3, Verdict.VOID),
        (["Error: the engine is dead"] * 3, Verdict.VOID),
        (["Internal error 17, {}", "{}", "Error!"], Verdict.VOID),
        (["You said: {}"] * 2 + ["the Rhine and the Elbe"], Verdict.PASS),
        (["Error handling is an art", "Exceptions are rare", "Error bars show"], Verdict.PASS),
        (["You said: {}"] * 2, Verdict.PASS),
    ],
)
def test_prompts_and_errors_given_back_are_no_answers(
    answers: list[str], expected: Verdict
) -> None:
    seen = hollow(*answers)
    starts = baseline(control=CHANGED, looks=seen), candidate(control=CHANGED, looks=seen)
    assert verdict(*starts) is expected


def test_answers_that_change_with_each_pass_and_agree_between_starts_are_void() -> None:
    restless = AnswerLooks(restless=True)
    starts = [baseline(control=CHANGED, looks=restless), candidate(control=CHANGED)]
    decision = without_flaws(decide(starts, IDS, Rules(), complete=True), starts, Rules())
    assert decision.verdict is Verdict.VOID
    assert "follow the order of the requests" in decision.reason


# --- an answer that contradicts itself ---


def answered(body: dict[str, Any] | None = None, **changes: Any) -> AnswerLooks:
    """Of three prompts with one answer of twelve words and tokens each, with changes to its parts."""
    words = [f"{letter}word" for letter in "abcdefghijkl"]
    numbers = [-number / 8 for number in range(12)]
    logprobs = {"tokens": words, "token_logprobs": numbers, **changes.pop("logprobs", {})}
    choice = {"text": " ".join(words), "finish_reason": "stop", "logprobs": logprobs, **changes}
    counted = choice.pop("counted", 12)
    taken = LooksOfAnswers(asked(3, logprobs=1, **(body or {})))
    for number in range(3):
        count = {} if counted is None else {"completion_tokens": counted}
        taken.add(f"r{number}", {"choices": [choice], **count}, {})
    return taken.value()


def flaw(looks: AnswerLooks) -> str:
    start = baseline(looks=looks)
    result = StartResult(start=start, failure=None, duration_s=1, digests={}, errors={})
    return unended_flaw([result]) or ""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"counted": 0}, "its usage counts 0 tokens, and its text has 12 words"),
        (
            {"counted": 3, "logprobs": {"tokens": None}},
            "counts 3 tokens, and its text has 12 words",
        ),
        ({"counted": 6}, "list 12 tokens, and its usage counts 6"),
        ({"logprobs": {"tokens": ["aword"]}}, "list 1 tokens, and these are not its whole text"),
        ({"logprobs": {"tokens": ["aword"]}, "counted": None}, "list 1 tokens"),
        ({"logprobs": {"token_logprobs": [0.0] * 12}}, "every log-probability of A1 is exactly 0"),
        ({"logprobs": {"token_logprobs": [-1] * 12}}, "every log-probability of A1 is exactly -1"),
        ({"finish_reason": "content_filter"}, '(r0: finish_reason "content_filter")'),
        ({"finish_reason": "load_shed"}, "3 of 3 answers of A1 were taken away or given up"),
    ],
)
def test_an_answer_that_contradicts_itself_is_a_flaw(changes: Any, reason: str) -> None:
    assert reason in flaw(answered(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"counted": None},
        # A token that ends the answer is counted and not listed, or listed and not counted.
        {"counted": 13},
        {"counted": 11},
        # Tokens of reasoning and of calls are counted and not listed.
        {"counted": 60},
        # Two tokens that are no whole characters.
        {"counted": 60, "logprobs": {"tokens": ["\ufffd", "\ufffd"]}, "text": "\u6771\u4eac\u6771"},
        {"counted": 0, "text": "", "logprobs": {"tokens": None}},
        {"counted": 0, "body": {"echo": True}},
        {"counted": 5, "text": "token" * 40, "logprobs": {"tokens": None}},
        {"finish_reason": "eos_token"},
        {"finish_reason": "tool_calls"},
        {"finish_reason": "STOP"},
        {"logprobs": {"token_logprobs": [0.0, 0, -0.5] * 4}},
    ],
)
def test_an_answer_of_an_honest_server_is_none(changes: Any) -> None:
    assert not flaw(answered(**changes))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"empty": 3}, "every answer of A1 is empty"), ({"answers": {}}, "answered 0 of 3 requests")],
)
def test_void_evidence_says_why_it_proves_nothing(changes: dict[str, Any], reason: str) -> None:
    decision = decide([baseline(**changes), candidate()], IDS, Rules(), complete=True)
    assert decision.verdict is Verdict.VOID
    assert reason in decision.reason

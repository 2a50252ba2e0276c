# SPDX-License-Identifier: Apache-2.0
"""What comes after a restart must still be answers, whether or not the same ones were wanted."""

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec import structs

from ci_doctor.load.sending import Reply
from ci_doctor.model.facts.restart_check import AcknowledgedWrites, Observation, Phase, Terms
from ci_doctor.model.outcome import Verdict
from ci_doctor.restart.answers import Ledger
from ci_doctor.restart.report import conclude, findings, judge
from tests.support.cases import cases
from tests.unit.load.streams import canonicalise
from tests.unit.restart.observations import TERMS, seen

WORDS = ("one fine day", "two of them", "three is more", "four and out", "five for all")
Passes = Mapping[Phase, Sequence[Sequence[str]]]
FREE = structs.replace(TERMS, same_outputs=False)


def reply(name: str, text: str, model: str | None = None) -> Reply:
    # Also a blank answer has a token, if the server gives them: that of the end.
    choice = {"text": text, "finish_reason": "stop", "token_ids": [2]}
    if name == "r1":
        del choice["token_ids"]
    body = {"model": model, "choices": [choice]}
    answer = canonicalise(json.dumps(body).encode())
    return Reply(id=name, sent_at=0.0, ended_at=1.0, status=200, answer=answer)


def observed(answers: Passes, models: Mapping[Phase, str] = {}) -> Observation:
    """A good restart with these texts: by phase, the passes."""
    ledger = Ledger(compare=False)
    for phase, passes in answers.items():
        for texts in passes:
            for number, text in enumerate(texts):
                ledger.keep(phase, reply(f"r{number}", text, models.get(phase)))
            ledger.passed(phase, len(texts), 1.0)
    requests = len(answers[Phase.BASELINE][0])
    return seen(
        requests=requests, prompts=requests, phases=ledger.counts, answers=ledger.comparison()
    )


def restarted(
    before: Sequence[str], after: Sequence[str], *models: str
) -> tuple[Verdict | None, list[str]]:
    named = dict(zip((Phase.BASELINE, Phase.AFTER), models, strict=False))
    return judged(observed({Phase.BASELINE: [before] * 2, Phase.AFTER: [after] * 2}, named))


def judged(observation: Observation, terms: Terms = FREE) -> tuple[Verdict | None, list[str]]:
    promises = judge(observation, terms)
    conclusion = conclude(observation, promises, terms)
    found = findings(observation, promises, conclusion, terms)
    rules = [each.rule.removeprefix("restart-check/") for each in found]
    return conclusion.verdict, rules


@pytest.mark.parametrize("blank", ["", " \n"])
@pytest.mark.parametrize("places", [range(5), (2,)])
def test_an_answer_that_lost_its_words_is_a_failure(blank: str, places: Sequence[int]) -> None:
    after = [blank if place in places else text for place, text in enumerate(WORDS)]
    assert restarted(WORDS, after) == (Verdict.FAILED, ["lost-answers", "changed-answers"])


def test_one_pass_of_two_without_words_is_a_failure() -> None:
    passes: Passes = {Phase.BASELINE: [WORDS] * 2, Phase.AFTER: [WORDS, [""] * 5]}
    verdict, rules = judged(observed(passes))
    assert verdict is Verdict.FAILED
    assert rules[0] == "lost-answers"


def test_an_answer_without_words_during_the_outage_is_a_failure() -> None:
    phases: Passes = {Phase.BASELINE: [WORDS] * 2, Phase.OUTAGE: [["", ""]], Phase.AFTER: [WORDS]}
    assert judged(observed(phases)) == (Verdict.FAILED, ["lost-answers"])


def test_a_request_that_was_blank_before_may_be_blank_after() -> None:
    before = ["\n", *WORDS[1:]]
    assert restarted(before, before) == (Verdict.PASS, ["blank-answers"])


@pytest.mark.parametrize("before", ["", "\n "])
@pytest.mark.parametrize("after", ["", " ", "words"])
def test_a_baseline_without_words_proves_nothing(before: str, after: str) -> None:
    assert restarted([before] * 5, [after] * 5)[0] is Verdict.VOID


@pytest.mark.parametrize("count", [2, 5])
def test_one_answer_to_all_requests_where_many_differed_is_a_failure(count: int) -> None:
    verdict, rules = restarted(WORDS[:count], ["!!!!!!!!!!!!!!!!"] * count)
    assert (verdict, rules[0]) == (Verdict.FAILED, "lost-answers")


@pytest.mark.parametrize("count", [1, 5])
def test_answers_of_less_than_half_their_length_are_a_failure(count: int) -> None:
    verdict, rules = restarted(WORDS[:count], [text[:4] for text in WORDS[:count]])
    assert (verdict, rules[0]) == (Verdict.FAILED, "lost-answers")


def test_few_answers_that_vary_may_be_alike_by_chance() -> None:
    answers = {Phase.BASELINE: [["yes", "no"], ["no", "no"]], Phase.AFTER: [["no", "no"]] * 2}
    assert judged(observed(answers)) == (Verdict.PASS, [])


def test_other_words_than_a_steady_baselines_are_a_warning() -> None:
    after = [text[::-1] for text in WORDS]
    assert restarted(WORDS, after) == (Verdict.PASS, ["changed-answers"])


def test_one_answer_to_all_requests_before_the_kill_is_a_warning() -> None:
    assert restarted(["same"] * 5, ["same"] * 5) == (Verdict.PASS, ["one-answer"])


def test_another_model_after_the_restart_is_a_failure() -> None:
    verdict, rules = restarted(WORDS, WORDS, "qwen-14b", "qwen-0.5b")
    assert (verdict, rules) == (Verdict.FAILED, ["other-model"])
    assert restarted(WORDS, WORDS, "qwen", "qwen") == (Verdict.PASS, [])
    assert restarted(WORDS, WORDS, "qwen") == (Verdict.PASS, [])


def test_nothing_answered_after_the_restart_is_no_pass() -> None:
    assert judged(observed({Phase.BASELINE: [WORDS] * 2})) == (Verdict.VOID, ["proves-nothing"])


# --- answers that fresh starts agree on ---

CONTROLLED = structs.replace(FREE, control_starts=2)
KEYS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def controlled(
    controls: Sequence[Sequence[str]],
    before: Sequence[Sequence[str]],
    after: Sequence[Sequence[str]],
) -> Observation:
    """A good restart with these texts: one pass for each control start, then passes."""
    ledger = Ledger(compare=False)
    phases = [(Phase.CONTROL, texts) for texts in controls]
    phases += [(Phase.BASELINE, texts) for texts in before]
    phases += [(Phase.AFTER, texts) for texts in after]
    for phase, texts in phases:
        if phase is Phase.CONTROL:
            ledger.begin_control()
        for number, text in enumerate(texts):
            ledger.keep(phase, reply(f"r{number}", text))
    return seen(answers=ledger.comparison())


def with_answer(text: str) -> tuple[str, ...]:
    return (*KEYS[:3], text, *KEYS[4:])


LOST = with_answer("lost")


@pytest.mark.parametrize(
    "after",
    [
        [LOST, LOST],
        [with_answer("stale"), with_answer("other")],
        [tuple(reversed(KEYS)), tuple(reversed(KEYS))],
    ],
)
def test_an_answer_on_which_fresh_starts_agreed_and_that_no_pass_after_gives_is_a_broken_promise(
    after: Sequence[Sequence[str]],
) -> None:
    assert judged(controlled([KEYS, KEYS], [KEYS, KEYS], after), CONTROLLED) == (
        Verdict.FAILED,
        ["unkept-answers"],
    )


@cases(
    ("controls", "before", "after", "rules"),
    {
        "kept": ([KEYS, KEYS], [KEYS, KEYS], [KEYS, KEYS], []),
        "one-pass-has-it": ([KEYS, KEYS], [KEYS, KEYS], [LOST, KEYS], ["changed-answers"]),
        "a-control-start-differs": (
            [with_answer("cold"), KEYS],
            [KEYS, KEYS],
            [LOST, LOST],
            ["starts-differ", "changed-answers"],
        ),
        "too-few-control-starts": ([KEYS], [KEYS, KEYS], [LOST, LOST], ["changed-answers"]),
        "one-pass-alone": ([KEYS, KEYS], [KEYS, KEYS], [LOST], ["changed-answers"]),
    },
)
def test_without_agreement_before_or_in_a_part_of_the_passes_a_change_is_a_warning(
    controls: Sequence[Sequence[str]],
    before: Sequence[Sequence[str]],
    after: Sequence[Sequence[str]],
    rules: list[str],
) -> None:
    assert judged(controlled(controls, before, after), CONTROLLED) == (Verdict.PASS, rules)


def test_a_server_whose_answers_flip_is_red_in_few_checks() -> None:
    draw = random.Random(7)
    red = 0
    for _ in range(400):
        flips = draw.choice((0.05, 0.2, 0.33, 0.5))

        def one_pass(flips: float = flips) -> list[str]:
            return [f"{n} {draw.random() < flips}" for n in range(12)]

        passes = [one_pass() for _ in range(6)]
        verdict, _ = judged(controlled(passes[:2], passes[2:4], passes[4:]), CONTROLLED)
        red += verdict is Verdict.FAILED
    assert red <= 24, "6 % of 400, where 5 % are promised"


def twelve_writes(**fields: Any) -> AcknowledgedWrites:
    return AcknowledgedWrites(before_kill=9, acknowledged=12, **fields)


@pytest.mark.parametrize(
    ("writes", "verdict", "rules"),
    [
        (twelve_writes(verified=True), Verdict.PASS, []),
        (
            twelve_writes(verified=True, lost=("k3",), lost_count=1),
            Verdict.FAILED,
            ["lost-writes"],
        ),
        (twelve_writes(problem="it ended with 2"), Verdict.VOID, ["proves-nothing"]),
        (None, Verdict.VOID, ["proves-nothing"]),
    ],
)
def test_acknowledged_writes_pass_only_if_the_verifier_has_judged(
    writes: AcknowledgedWrites | None, verdict: Verdict, rules: list[str]
) -> None:
    terms = structs.replace(FREE, acknowledged=5)
    assert judged(seen(writes=writes), terms) == (verdict, rules)


def failed(error: str, *, hung: bool = False) -> Reply:
    return Reply(id="r0", sent_at=0.0, ended_at=1.0, error=error, hung=hung)


def test_replies_are_counted_by_phase_and_only_errors_that_differ_are_kept() -> None:
    ledger = Ledger(compare=False)
    for error in ("a", "a", "b", "c", "d"):
        ledger.keep(Phase.OUTAGE, failed(error))
    ledger.keep(Phase.OUTAGE, failed("no answer in 3 s", hung=True))
    ledger.keep(Phase.OUTAGE, reply("r1", ""))  # without a token
    ledger.lasted(Phase.OUTAGE, 2.0)
    counts = ledger.counts[Phase.OUTAGE]
    assert (counts.ok, counts.failed, counts.hung, counts.empty, counts.sent) == (1, 5, 1, 1, 7)
    assert counts.errors == ("a", "b", "c")
    assert (counts.seconds, counts.rate) == (2.0, None)


def test_the_best_pass_is_the_rate() -> None:
    ledger = Ledger(compare=False)
    ledger.passed(Phase.AFTER, 10, 2.0)
    ledger.passed(Phase.AFTER, 10, 1.0, waited_s=0.5)
    assert ledger.counts[Phase.AFTER].rate == 10.0
    assert ledger.counts[Phase.AFTER].free_rate == 20.0
    assert ledger.counts[Phase.AFTER].seconds == 3.0


def test_an_answer_that_the_baseline_never_gave_is_shown_from_where_they_part() -> None:
    ledger = Ledger(compare=True)
    ledger.keep(Phase.BASELINE, reply("r0", "x" * 100 + "end"))
    ledger.keep(Phase.OUTAGE, reply("r0", "x" * 100 + "END"))
    (difference,) = ledger.different
    assert (difference.phase, difference.before, difference.after) == (
        Phase.OUTAGE,
        "x" * 40 + "end",
        "x" * 40 + "END",
    )


def test_a_request_that_the_baseline_answers_in_two_ways_proves_nothing() -> None:
    ledger = Ledger(compare=True)
    for text in ("a", "b"):
        ledger.keep(Phase.BASELINE, reply("r0", text))
    ledger.keep(Phase.AFTER, reply("r0", "c"))
    assert ledger.unstable == ("r0",)
    assert ledger.different_count == 0


def test_where_the_same_answers_were_not_asked_for_nothing_is_compared() -> None:
    ledger = Ledger(compare=False)
    ledger.keep(Phase.BASELINE, reply("r0", "a"))
    ledger.keep(Phase.AFTER, reply("r0", "b"))
    assert (ledger.different_count, ledger.unstable) == (0, ())

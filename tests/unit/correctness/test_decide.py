# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ci_doctor.correctness.compare import Answer, Kind, Start
from ci_doctor.correctness.decide import FEWEST, decide, next_arm
from ci_doctor.correctness.settings import Arm
from ci_doctor.model.verdict import Verdict

A, B = Arm.BASELINE, Arm.CANDIDATE


def start(arm: Arm, answers: str, number: int = 1, **fields: object) -> Start:
    """A start that answered r0, r1 … with the letters of `answers`; `-` is no answer."""
    given = {f"r{index}": None if letter == "-" else letter for index, letter in enumerate(answers)}
    return replace(Start(arm=arm, number=number, answers=given), **fields)


def starts(baseline: str = "", candidate: str = "") -> list[Start]:
    """A start a word: its answers, then `!` where it failed, `^` where the cause lay outside, `0` where all is empty."""
    made = []
    for arm, words in ((A, baseline.split()), (B, candidate.split())):
        for number, word in enumerate(words, start=1):
            answers = word.rstrip("!^0")
            made.append(
                start(
                    arm,
                    answers,
                    number,
                    failed="!" in word or "^" in word,
                    outside="^" in word,
                    empty=len(answers) if "0" in word else 0,
                )
            )
    return made


def verdict(baseline: str, candidate: str, *, complete: bool = True) -> Verdict:
    made = starts(baseline, candidate)
    return decide(made, [*made[0].answers], complete=complete).verdict


# --- the table ---


@pytest.mark.parametrize(
    ("baseline", "candidate", "expected"),
    [
        # equal
        ("xy", "xy", Verdict.PASS),
        ("xy xy xy", "xy xy", Verdict.PASS),
        # the baseline is always the same, the candidate never the same as it on some request
        ("xy xy", "xz xz", Verdict.REGRESSION),
        ("xy xy", "xz zy", Verdict.INCONCLUSIVE),
        ("xy xy", "xz zz", Verdict.REGRESSION),
        ("xy xy", "x- x-", Verdict.REGRESSION),
        ("xy xy", "x- xz", Verdict.REGRESSION),
        # the baseline differs from itself, the candidate shows nothing that it has not shown
        ("xy xz", "xz", Verdict.FLAKY),
        ("xy xz", "xy xz", Verdict.FLAKY),
        # ... or shows outputs of its own
        ("xy xz", "xw", Verdict.INCONCLUSIVE),
        ("xy xz", "wy wz", Verdict.INCONCLUSIVE),
        ("xy xz", "x- xz", Verdict.INCONCLUSIVE),
        # the baseline is always the same, the candidate sometimes
        ("xy xy", "xy xz", Verdict.INCONCLUSIVE),
        ("xy xy", "xy x-", Verdict.INCONCLUSIVE),
        # the baseline starts and answers, the candidate dies or answers with errors in every start
        ("xy xy", "--! --!", Verdict.REGRESSION),
        ("xy xy", "x-! x-!", Verdict.REGRESSION),
        ("xy xy", "xy! xy!", Verdict.REGRESSION),
        ("xy xz", "xy! xy!", Verdict.REGRESSION),
        ("xy xy", "-- --", Verdict.REGRESSION),
        ("xy xy", "xy xy!", Verdict.INCONCLUSIVE),
        ("xy xz", "xy xy!", Verdict.INCONCLUSIVE),
        # the baseline fails too, or the cause lies outside
        ("--! --!", "xy", Verdict.INFRA),
        ("xy! xy!", "xy", Verdict.INFRA),
        ("--^ --^", "xy", Verdict.INFRA),
        ("xy xy", "--^ --^", Verdict.INFRA),
        ("xy --!", "--! --!", Verdict.INFRA),
        ("xy xy!", "xy! xy!", Verdict.INFRA),
        ("xy --!", "xy", Verdict.FLAKY),
        ("xy --!", "xz xz", Verdict.INCONCLUSIVE),
        # an outside cause is not held against an arm that also worked
        ("--^ xy", "xy", Verdict.PASS),
        ("xy xy", "--^ xz xz", Verdict.REGRESSION),
        # ... but "never" is not said of the only start that is left of those that were wanted
        ("xy xy", "--^ --^ xz", Verdict.INCONCLUSIVE),
        ("xy xy", "--^ --^ --!", Verdict.INCONCLUSIVE),
        # nothing answered, missing ids
        ("-- --", "xy", Verdict.VOID),
        ("x- x-", "x- x-", Verdict.VOID),
        ("x- x-", "xy xy", Verdict.VOID),
        # nothing said
        ("xy0", "xy0", Verdict.VOID),
        ("xy xy", "zz0 zz0", Verdict.REGRESSION),
    ],
)
def test_the_verdict_table(baseline: str, candidate: str, expected: Verdict) -> None:
    assert verdict(baseline, candidate) is expected


@pytest.mark.parametrize(
    ("baseline", "candidate", "expected"),
    [
        ("xy", "", Verdict.INCONCLUSIVE),
        ("--", "", Verdict.VOID),
        ("xy", "xz", Verdict.INCONCLUSIVE),
        ("xy xy", "xz", Verdict.INCONCLUSIVE),
        ("xy", "--!", Verdict.INCONCLUSIVE),
        ("xy xy", "--!", Verdict.INCONCLUSIVE),
        ("xy", "xy", Verdict.PASS),
        ("xy xy", "xz xz", Verdict.REGRESSION),
    ],
)
def test_a_spent_budget_leaves_open_what_too_few_starts_cannot_say(
    baseline: str, candidate: str, expected: Verdict
) -> None:
    assert verdict(baseline, candidate, complete=False) is expected


def test_one_candidate_start_is_enough_where_no_more_were_asked_for() -> None:
    assert verdict("xy xy", "xz") is Verdict.REGRESSION


def test_proof_that_is_missing_in_one_start_makes_all_void() -> None:
    unproven = start(B, "xy", proof_missing=("/metrics has no `hits`",))
    decision = decide([start(A, "xy"), unproven], ["r0", "r1"], complete=True)
    assert decision.verdict is Verdict.VOID
    assert "nothing proves that the candidate's path ran in B1: /metrics has no `hits`" in decision.reason


def test_servers_that_were_not_asked_the_same_cannot_be_compared() -> None:
    first = start(A, "x", prompts={"r0": {"prompt_tokens": "7", "prompt_token_ids": "sha256 aa"}})
    less = start(B, "x", prompts={"r0": {"prompt_tokens": "7"}})
    other = start(B, "x", prompts={"r0": {"prompt_tokens": "8"}})
    assert decide([first, less], ["r0"], complete=True).verdict is Verdict.PASS
    decision = decide([first, other], ["r0"], complete=True)
    assert decision.verdict is Verdict.VOID
    assert "prompt_tokens of request r0 is 7 in A1 and 8 in B1" in decision.reason


def test_kinds_are_told_for_every_request() -> None:
    decision = decide(starts("xyz xyw", "xyw xvw"), ["r0", "r1", "r2"], complete=True)
    assert decision.kinds == {"r0": Kind.EQUAL, "r1": Kind.SOMETIMES, "r2": Kind.FLAKY}
    assert decision.count(Kind.SOMETIMES, Kind.FLAKY) == 2


# --- what holds whatever the starts are ---

REQUESTS = ["r0", "r1", "r2"]
ANSWERS: st.SearchStrategy[Mapping[str, Answer]] = st.fixed_dictionaries(
    {request: st.sampled_from(["x", "y", None]) for request in REQUESTS}
)


@st.composite
def any_start(draw: st.DrawFn, arm: Arm | None = None) -> Start:
    failed = draw(st.sampled_from([False, False, False, True]))
    return Start(
        arm=arm or draw(st.sampled_from(list(Arm))),
        number=draw(st.integers(1, 9)),
        answers=draw(ANSWERS),
        failed=failed,
        outside=failed and draw(st.booleans()),
        empty=draw(st.sampled_from([0, 0, 1, 3])),
        proof_missing=draw(st.sampled_from([(), (), (), ("no metric",)])),
    )


@st.composite
def healthy(draw: st.DrawFn, arm: Arm, choices: str = "xy") -> Start:
    answers = {request: draw(st.sampled_from(choices)) for request in REQUESTS}
    return Start(arm=arm, number=1, answers=answers)


@given(st.lists(any_start(), max_size=7), st.booleans(), st.randoms(use_true_random=False))
def test_the_order_of_starts_never_matters(made: list[Start], complete: bool, random: Random) -> None:
    shuffled = [*made]
    random.shuffle(shuffled)
    one, other = (decide(each, REQUESTS, complete=complete) for each in (made, shuffled))
    assert (one.verdict, one.kinds) == (other.verdict, other.kinds)


@given(st.lists(any_start(), max_size=7), st.booleans())
def test_a_pass_is_made_of_answers_that_are_all_there_and_all_the_same(made: list[Start], complete: bool) -> None:
    if decide(made, REQUESTS, complete=complete).verdict is Verdict.PASS:
        counted = [start for start in made if not start.outside]
        assert {start.arm for start in counted} == set(Arm)
        assert not any(start.failed or start.proof_missing for start in counted)
        for request in REQUESTS:
            answers = {start.answers[request] for start in counted}
            assert len(answers) == 1
            assert None not in answers
        assert not any(start.empty >= len(REQUESTS) for start in counted if start.arm is A)


@given(st.lists(any_start(), max_size=7), st.booleans())
def test_flaky_lets_through_no_request_that_a_candidate_start_left_open(made: list[Start], complete: bool) -> None:
    if decide(made, REQUESTS, complete=complete).verdict is Verdict.FLAKY:
        candidate = [start for start in made if start.arm is B and not start.outside]
        assert candidate
        assert all(start.answered == len(REQUESTS) and not start.failed for start in candidate)


@given(st.lists(any_start(), max_size=5), st.booleans())
def test_without_requests_or_without_starts_nothing_is_decided(made: list[Start], complete: bool) -> None:
    assert decide(made, [], complete=complete).verdict in {Verdict.VOID, Verdict.INFRA}
    assert decide([], REQUESTS, complete=complete).verdict is Verdict.VOID


@given(st.lists(any_start(), min_size=1, max_size=6), st.data())
def test_another_candidate_start_that_equals_the_baseline_never_makes_a_pass_a_regression(
    made: list[Start], data: st.DataObject
) -> None:
    if decide(made, REQUESTS, complete=True).verdict is Verdict.PASS:
        baseline = data.draw(st.sampled_from([each for each in made if each.arm is A and not each.outside]))
        more = [*made, replace(baseline, arm=B)]
        assert decide(more, REQUESTS, complete=True).verdict is Verdict.PASS


@given(healthy(A), st.lists(healthy(B, "xyz"), min_size=2, max_size=4), st.integers(2, 4), st.booleans())
def test_never_the_answer_of_a_stable_baseline_is_a_regression(
    baseline: Start, candidates: list[Start], copies: int, complete: bool
) -> None:
    others = [replace(each, answers={**each.answers, "r0": "w"}) for each in candidates]
    assert decide([baseline] * copies + others, REQUESTS, complete=complete).verdict is Verdict.REGRESSION


@given(st.lists(healthy(A), min_size=1, max_size=4), st.data(), st.booleans())
def test_within_what_the_baseline_has_shown_there_is_no_regression(
    baseline: list[Start], data: st.DataObject, complete: bool
) -> None:
    candidates = [
        Start(arm=B, number=number, answers={
            request: data.draw(st.sampled_from(sorted({str(each.answers[request]) for each in baseline})))
            for request in REQUESTS
        })
        for number in range(data.draw(st.integers(1, 4)))
    ]  # fmt: skip
    assert decide([*baseline, *candidates], REQUESTS, complete=complete).verdict in {Verdict.PASS, Verdict.FLAKY}


@given(st.integers(1, 5), st.data())
def test_the_schedule_ends_within_its_bounds(retries: int, data: st.DataObject) -> None:
    made: list[Start] = []
    while arm := next_arm(made, REQUESTS, retries):
        made.append(data.draw(any_start(arm)))
        assert len(made) <= retries + max(FEWEST, retries)
    number = {arm: sum(start.arm is arm for start in made) for arm in Arm}
    assert number[B] <= retries
    decision = decide(made, REQUESTS, complete=True)
    if decision.verdict is Verdict.REGRESSION:
        assert number == {A: max(FEWEST, retries), B: retries}


def test_the_arms_take_turns_and_a_regression_is_decided_at_the_end() -> None:
    made: list[Start] = []
    order = ""
    while arm := next_arm(made, ["r0"], 3):
        made.append(start(arm, "x" if arm is A else "z"))
        order += arm.letter
    assert order == "ABABAB"


@pytest.mark.parametrize(
    ("baseline", "candidate", "expected"),
    [
        ("", "", A),
        ("x", "", B),
        ("x", "x", None),
        ("x", "z", A),
        ("x z", "z", None),
        ("-", "", A),
        ("- -", "", None),
        ("-! -!", "", None),
        ("x^", "", A),
        ("x0", "x", None),
    ],
)
def test_the_next_start_is_the_one_that_can_still_tell_something(
    baseline: str, candidate: str, expected: Arm | None
) -> None:
    assert next_arm(starts(baseline, candidate), ["r0"], 3) is expected

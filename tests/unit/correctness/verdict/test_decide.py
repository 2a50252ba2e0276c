# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ci_doctor.correctness.settings import AnswerLevel, Arm, Policy, Rules, StartOrder
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.correctness.verdict.schedule import sequence
from ci_doctor.correctness.verdict.starts import Answer, ArmStart, DifferenceKind
from ci_doctor.correctness.verdict.validity import Decision
from ci_doctor.model.outcome import Verdict
from tests.support.orders import seed_of

A, B = Arm.BASELINE, Arm.CANDIDATE
# One look over starts in any order: what looks and blocks add is tested beside them.
RULES = Rules(order=StartOrder.EXCHANGEABLE)


def start(arm: Arm, answers: str, number: int = 1, **fields: object) -> ArmStart:
    """A start that answered r0, r1 … with the letters of `answers`; `-` is no answer."""
    given = {f"r{index}": None if letter == "-" else letter for index, letter in enumerate(answers)}
    return replace(ArmStart(arm=arm, number=number, answers=given), **fields)


def starts(baseline: str = "", candidate: str = "") -> list[ArmStart]:
    """A start a word: its answers, then `!` where it failed, `^` where the cause lay outside, `0` where all is empty.

    `5*xy` are five of them.
    """
    made = []
    for arm, words in ((A, baseline.split()), (B, candidate.split())):
        for number, word in enumerate(_repeated(words), start=1):
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


def _repeated(words: list[str]) -> list[str]:
    return [
        each
        for word in words
        for each in [word.partition("*")[2] or word]
        * int(word.partition("*")[0] if "*" in word else 1)
    ]


def verdict(
    baseline: str, candidate: str, rules: Rules = RULES, *, complete: bool = True
) -> Verdict:
    made = starts(baseline, candidate)
    return decide(made, [*made[0].answers], rules, complete=complete).verdict


# --- the table ---


@pytest.mark.parametrize(
    ("baseline", "candidate", "expected"),
    [
        # equal
        ("xy", "xy", Verdict.PASS),
        ("xy xy xy", "xy xy", Verdict.PASS),
        # never answered as in a baseline start: a regression where chance does not explain it
        ("5*xy", "3*xz", Verdict.REGRESSION),
        ("5*xy", "xz zy", Verdict.INCONCLUSIVE),
        ("5*xy", "xz zz xw", Verdict.REGRESSION),
        ("5*xy", "3*x-", Verdict.REGRESSION),
        ("5*xy", "x- xz x-", Verdict.REGRESSION),
        ("2*xy", "2*xz", Verdict.INCONCLUSIVE),
        ("4*xy", "3*xz", Verdict.INCONCLUSIVE),
        ("4*xy", "4*xz", Verdict.INCONCLUSIVE),
        ("4*xy", "6*xz", Verdict.REGRESSION),
        ("3*xy", "3*xz", Verdict.INCONCLUSIVE),
        # ... also beside requests on which the baseline is not stable, and within them
        ("3*xy 4*xz", "3*xw", Verdict.REGRESSION),
        ("3*ay 4*az", "by bz bz", Verdict.REGRESSION),
        # the baseline never answers twice alike: there nothing can be compared
        ("xa xb xc xd xe", "xf xg xh", Verdict.NONDETERMINISTIC),
        ("xa xb xc xd xe", "yf yg yh", Verdict.REGRESSION),
        ("xa xb xc xd xe", "xf xg xa", Verdict.FLAKY),
        # the baseline differs from itself, the candidate shows nothing that it has not shown
        ("xy xz", "xy", Verdict.FLAKY),
        # ... but may have made one of them permanent
        ("xy xz", "xz", Verdict.INCONCLUSIVE),
        ("9*xy xz", "6*xz", Verdict.REGRESSION),
        ("xy xz", "xy xz", Verdict.FLAKY),
        # ... or shows outputs of its own
        ("xy xz", "xw", Verdict.INCONCLUSIVE),
        ("xy xz", "wy wz", Verdict.INCONCLUSIVE),
        ("xy xz", "x- xz", Verdict.INCONCLUSIVE),
        # ... which a mode that one baseline start took alone does not excuse
        ("xxxxx yyyyx xxxxx", "xxxxw yyyyx xxxxw xxxxw", Verdict.INCONCLUSIVE),
        # the baseline is always the same, the candidate sometimes
        ("xy xy", "xy xz", Verdict.INCONCLUSIVE),
        ("xy xy", "xy x-", Verdict.INCONCLUSIVE),
        # the baseline starts and answers, the candidate dies or answers with errors in every start
        ("4*xy", "5*--!", Verdict.REGRESSION),
        ("4*xy", "5*x-!", Verdict.REGRESSION),
        ("4*xy", "4*xy!", Verdict.REGRESSION),
        ("3*xy xz", "4*xy!", Verdict.REGRESSION),
        ("4*xy", "5*--", Verdict.REGRESSION),
        # ... where that is not what starts do that fail at random
        ("3*xy", "4*--!", Verdict.INCONCLUSIVE),
        ("2*xy", "2*--!", Verdict.INCONCLUSIVE),
        ("39*xy", "--!", Verdict.INCONCLUSIVE),
        ("xy xy", "xy xy!", Verdict.INCONCLUSIVE),
        ("xy xz", "xy xy!", Verdict.INCONCLUSIVE),
        # the baseline fails too, which proves nothing of the change either way
        ("--! --!", "", Verdict.FAILED),
        ("--! --!", "xy", Verdict.FAILED),
        ("xy! xy!", "xy", Verdict.FAILED),
        ("xy --!", "--! --!", Verdict.FAILED),
        ("xy xy!", "xy! xy!", Verdict.FAILED),
        ("--^ --!", "", Verdict.FAILED),
        ("--! --^", "", Verdict.FAILED),
        # the cause lies outside, as the machine shows
        ("--^ --^", "xy", Verdict.INFRA),
        ("xy xy", "--^ --^", Verdict.INFRA),
        ("xy --!", "xy", Verdict.FLAKY),
        ("xy --!", "xz xz", Verdict.INCONCLUSIVE),
        # starts die as often in both arms
        ("6*xy 2*--!", "7*xy --!", Verdict.FLAKY),
        # an outside cause is not held against an arm that also worked
        ("--^ xy", "xy", Verdict.PASS),
        ("5*xy", "--^ 3*xz", Verdict.REGRESSION),
        # ... but "never" is not said of the only start that is left of those that were wanted
        ("xy xy", "--^ --^ xz", Verdict.INCONCLUSIVE),
        ("xy xy", "--^ --^ --!", Verdict.INCONCLUSIVE),
        # nothing answered, missing ids
        ("-- --", "xy", Verdict.VOID),
        ("x- x-", "x- x-", Verdict.VOID),
        ("x- x-", "xy xy", Verdict.VOID),
        # nothing said
        ("xy0", "xy0", Verdict.VOID),
        ("5*xy", "3*zz0", Verdict.REGRESSION),
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
        ("5*xy", "3*xz", Verdict.INCONCLUSIVE),
    ],
)
def test_a_spent_budget_leaves_open_what_too_few_starts_cannot_say(
    baseline: str, candidate: str, expected: Verdict
) -> None:
    assert verdict(baseline, candidate, complete=False) is expected


@pytest.mark.parametrize(
    ("complete", "reason"),
    [
        (False, "the budget ended before a start had answered, so there is nothing to compare"),
        (True, "nothing was answered, so there is nothing to compare"),
    ],
)
def test_a_budget_that_left_no_time_is_named_as_the_reason(complete: bool, reason: str) -> None:
    decision = decide([], ["r0"], RULES, complete=complete)

    assert (decision.verdict, decision.reason) == (Verdict.VOID, reason)


def test_proof_that_is_missing_in_one_start_makes_all_void() -> None:
    unproven = start(
        B, "xy", proof_missing=("nothing proves that its path ran: /metrics has no `hits`",)
    )
    decision = decide([start(A, "xy"), unproven], ["r0", "r1"], RULES, complete=True)
    assert decision.verdict is Verdict.VOID
    assert (
        decision.reason == "candidate B1: nothing proves that its path ran: /metrics has no `hits`"
    )


def test_servers_that_were_not_asked_the_same_cannot_be_compared() -> None:
    first = start(A, "x", prompts={"r0": {"prompt_tokens": "7", "prompt_token_ids": "sha256 aa"}})
    less = start(B, "x", prompts={"r0": {"prompt_tokens": "7"}})
    other = start(B, "x", prompts={"r0": {"prompt_tokens": "8"}})
    assert decide([first, less], ["r0"], RULES, complete=True).verdict is Verdict.PASS
    decision = decide([first, other], ["r0"], RULES, complete=True)
    assert decision.verdict is Verdict.VOID
    assert "prompt_tokens of request r0 is 7 in A1 and 8 in B1" in decision.reason


def test_kinds_are_told_for_every_request() -> None:
    decision = decide(starts("xyz xyw", "xyw xvw"), ["r0", "r1", "r2"], RULES, complete=True)
    assert decision.kinds == {
        "r0": DifferenceKind.EQUAL,
        "r1": DifferenceKind.SOMETIMES,
        "r2": DifferenceKind.FLAKY,
    }
    assert decision.count(DifferenceKind.SOMETIMES, DifferenceKind.FLAKY) == 2


# --- what holds whatever the starts are ---

REQUESTS = ["r0", "r1", "r2"]
ANSWERS: st.SearchStrategy[Mapping[str, Answer]] = st.fixed_dictionaries(
    {request: st.sampled_from(["x", "y", None]) for request in REQUESTS}
)


@st.composite
def any_start(draw: st.DrawFn, arm: Arm | None = None) -> ArmStart:
    failed = draw(st.sampled_from([False, False, False, True]))
    return ArmStart(
        arm=arm or draw(st.sampled_from(list(Arm))),
        number=draw(st.integers(1, 9)),
        answers=draw(ANSWERS),
        failed=failed,
        outside=failed and draw(st.booleans()),
        empty=draw(st.sampled_from([0, 0, 1, 3])),
        proof_missing=draw(st.sampled_from([(), (), (), ("no metric",)])),
    )


@st.composite
def healthy(draw: st.DrawFn, arm: Arm, choices: str = "xy") -> ArmStart:
    answers = {request: draw(st.sampled_from(choices)) for request in REQUESTS}
    return ArmStart(arm=arm, number=1, answers=answers)


@given(st.lists(any_start(), max_size=7), st.booleans())
def test_a_pass_is_made_of_answers_that_are_all_there_and_all_the_same(
    made: list[ArmStart], complete: bool
) -> None:
    if decide(made, REQUESTS, RULES, complete=complete).verdict is Verdict.PASS:
        counted = [start for start in made if not start.outside]
        assert {start.arm for start in counted} == set(Arm)
        assert not any(start.failed or start.proof_missing for start in counted)
        for request in REQUESTS:
            answers = {start.answers[request] for start in counted}
            assert len(answers) == 1
            assert None not in answers
        assert not any(start.empty >= len(REQUESTS) for start in counted if start.arm is A)


@given(st.lists(any_start(), max_size=7), st.booleans())
def test_flaky_lets_through_no_request_that_an_arm_never_answered(
    made: list[ArmStart], complete: bool
) -> None:
    if decide(made, REQUESTS, RULES, complete=complete).verdict is Verdict.FLAKY:
        counted = [start for start in made if not start.outside]
        for arm in Arm:
            of_arm = [start for start in counted if start.arm is arm]
            for request in REQUESTS:
                assert any(start.answers[request] for start in of_arm)


@given(st.lists(any_start(), max_size=5), st.booleans())
def test_without_requests_or_without_starts_nothing_is_decided(
    made: list[ArmStart], complete: bool
) -> None:
    assert decide(made, [], RULES, complete=complete).verdict is Verdict.VOID
    assert decide([], REQUESTS, RULES, complete=complete).verdict is Verdict.VOID


@given(st.lists(any_start(), min_size=1, max_size=6), st.data())
def test_another_candidate_start_that_equals_the_baseline_never_makes_a_pass_a_regression(
    made: list[ArmStart], data: st.DataObject
) -> None:
    if decide(made, REQUESTS, RULES, complete=True).verdict is Verdict.PASS:
        baseline = data.draw(
            st.sampled_from([each for each in made if each.arm is A and not each.outside])
        )
        more = [*made, replace(baseline, arm=B)]
        assert decide(more, REQUESTS, RULES, complete=True).verdict is Verdict.PASS


@given(healthy(A), st.lists(healthy(B, "xyz"), min_size=3, max_size=4), st.integers(6, 8))
def test_never_the_answer_of_a_stable_baseline_is_a_regression(
    baseline: ArmStart, candidates: list[ArmStart], copies: int
) -> None:
    others = [replace(each, answers={**each.answers, "r0": "w"}) for each in candidates]
    decision = decide([baseline] * copies + others, REQUESTS, RULES, complete=True)
    assert decision.verdict is Verdict.REGRESSION


@given(st.lists(healthy(A), min_size=1, max_size=4), st.data(), st.booleans())
def test_within_what_the_baseline_has_shown_there_is_no_regression(
    baseline: list[ArmStart], data: st.DataObject, complete: bool
) -> None:
    candidates = [
        ArmStart(arm=B, number=number, answers={
            request: data.draw(st.sampled_from(sorted({str(each.answers[request]) for each in baseline})))
            for request in REQUESTS
        })
        for number in range(data.draw(st.integers(1, 4)))
    ]  # fmt: skip
    verdict = decide([*baseline, *candidates], REQUESTS, RULES, complete=complete).verdict
    assert verdict in {Verdict.PASS, Verdict.FLAKY, Verdict.INCONCLUSIVE}


# --- what a verdict says beside itself ---


def test_a_pass_says_how_rare_a_bug_it_cannot_see() -> None:
    decision = decide(starts("xy", "xy"), ["r0", "r1"], RULES, complete=False)
    assert decision.risk == (
        "a fault that changes an answer in less than 98% of starts can hide behind 1 candidate start "
        "(at 95% confidence); so can any fault whose answers the baseline gave too"
    )
    assert "71%" in (decide(starts("xy", "3*xy"), ["r0", "r1"], RULES, complete=False).risk or "")


def test_under_noise_the_bound_names_the_request_that_differed() -> None:
    decision = decide(
        starts("5*xxx", "axx xbx xxc 3*xxx"), ["r0", "r1", "r2"], RULES, complete=True
    )
    assert decision.verdict is Verdict.INCONCLUSIVE, "a baseline that never varies has no noise"
    noisy = starts("axx xbx xxc 3*xxx", "dxx xex xxf 3*xxx")
    decision = decide(noisy, ["r0", "r1", "r2"], RULES, complete=True)
    assert decision.verdict is Verdict.FLAKY
    worst = decision.bounds[0]
    assert (worst.differed, worst.starts) == (1, 6)
    assert decision.bound == worst.bound
    assert f"{worst.request} differed in 1 of 6 candidate starts" in (decision.risk or "")


def test_a_regression_says_its_p_value_and_what_was_attainable() -> None:
    test = decide(starts("5*xy", "3*xz"), ["r0", "r1"], RULES, complete=True).test
    assert test is not None
    assert (test.disputed, test.p, test.smallest_p, test.labelings) == (("r1",), 1 / 56, 1 / 56, 56)
    assert [(each.starts, each.limit, each.p) for each in test.looks] == [(8, 0.025, 1 / 56)]


def test_as_many_clean_candidate_starts_are_made_as_are_asked_for() -> None:
    rules = replace(RULES, least_candidates=4)
    assert verdict("xy", "3*xy", rules) is Verdict.INCONCLUSIVE
    assert verdict("xy", "4*xy", rules) is Verdict.PASS
    assert verdict("xy xz", "3*xy", rules) is Verdict.INCONCLUSIVE


def test_any_pair_that_agrees_is_enough_for_the_policy_any_which_says_what_that_lets_through() -> (
    None
):
    rules = replace(RULES, policy=Policy.ANY)
    decision = decide(starts("xy xy", "xz xy"), ["r0", "r1"], rules, complete=False)
    assert decision.verdict is Verdict.PASS
    assert "87.5%" in (decision.risk or "")
    assert verdict("3*xy", "3*xz", rules) is Verdict.INCONCLUSIVE
    assert verdict("xy xy", "x- x-", rules) is Verdict.INCONCLUSIVE


# --- noise ---


def test_noise_that_both_arms_show_is_not_the_candidate_s() -> None:
    noisy = "axxxx xbxxx xxcxx xxxxx"
    assert verdict(noisy, "xxxdx dxxxx xxxxx xxxxx") is Verdict.FLAKY
    assert verdict(noisy, "xxxdx xxxdx xxxdx xxxdx") is Verdict.INCONCLUSIVE, "no noise repeats"
    assert verdict(noisy, "xxx-x dxxxx xxxxx xxxxx") is Verdict.FLAKY, "a failure is an outcome"
    assert verdict(noisy, "xxx-x xxx-x xxx-x xxx-x") is Verdict.INCONCLUSIVE, "never answered"


def test_requests_that_fail_at_times_in_both_arms_neither_block_nor_license() -> None:
    failing = "-xxxx xx-xx xxxxx x-xxx"
    assert verdict(failing, "xxx-x x-xxx xxxxx xxxxx") is Verdict.FLAKY
    assert verdict(failing, "-xxxx -xxxx -xxxx -xxxx") is Verdict.INCONCLUSIVE


# --- words and numbers ---


def test_numbers_alone_are_a_regression_too() -> None:
    tokens = {AnswerLevel.TOKENS: {"r0": "x", "r1": "y", "r2": "z"}}
    made = [replace(each, levels=tokens) for each in starts("5*abc", "3*def")]
    assert decide(made, ["r0", "r1", "r2"], RULES, complete=True).verdict is Verdict.REGRESSION


def test_a_candidate_that_says_itself_that_the_machine_is_full_does_not_pass_by_its_other_starts() -> (
    None
):
    full = start(B, "--", 1, failed=True, outside=True, claimed=True)
    taken = start(B, "--", 1, failed=True, outside=True)
    rest = [*starts("2*xy"), start(B, "xy", 2)]
    assert decide([*rest, full], ["r0", "r1"], RULES, complete=True).verdict is Verdict.INCONCLUSIVE
    assert decide([*rest, taken], ["r0", "r1"], RULES, complete=True).verdict is Verdict.PASS
    both = [*rest, full, start(A, "--", 3, failed=True, outside=True, claimed=True)]
    assert decide(both, ["r0", "r1"], RULES, complete=True).verdict is Verdict.PASS


def test_a_candidate_alone_cannot_say_itself_that_the_machine_ends_all_its_starts() -> None:
    steady = starts("3*xy")
    full = [start(B, "--", n, failed=True, outside=True, claimed=True) for n in (1, 2, 3)]
    assert decide([*steady, *full], ["r0", "r1"], RULES, complete=True).verdict is Verdict.FAILED
    taken = start(B, "--", 4, failed=True, outside=True)
    mixed = [*steady, *full[:2], taken]
    assert decide(mixed, ["r0", "r1"], RULES, complete=True).verdict is Verdict.FAILED
    # The baseline shows it too, so it is the machine.
    both = [*steady, *full, start(A, "--", 4, failed=True, outside=True, claimed=True)]
    assert decide(both, ["r0", "r1"], RULES, complete=True).verdict is Verdict.INFRA


def test_a_missing_answer_is_no_output_of_the_candidates_own() -> None:
    made = [*starts("8*xy"), start(B, "--", 1), *(start(B, "xy", n) for n in (2, 3, 4, 5, 6))]
    decision = decide(made, ["r0", "r1"], RULES, complete=True)
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert "the candidate leaves unanswered at times 2," in decision.reason


@pytest.mark.parametrize("steady", ["", "2*xy"])
def test_an_arm_that_a_process_of_this_job_keeps_from_starting_is_no_reason_for_another_run(
    steady: str,
) -> None:
    arm = B if steady else A
    taken = [start(arm, "--", n, failed=True, outside=True) for n in (1, 2)]
    made = [*(starts(steady) if steady else ()), *taken]
    assert decide(made, ["r0", "r1"], RULES, complete=True).verdict is Verdict.INFRA
    of_job = [*made, start(arm, "--", 3, failed=True, outside=True, of_job=True)]
    decision = decide(of_job, ["r0", "r1"], RULES, complete=True)
    assert decision.verdict is Verdict.FAILED
    assert "a process that this job started holds its port" in decision.reason


def test_a_candidate_that_wavers_where_the_baseline_is_steady_is_no_fault_of_the_environment() -> (
    None
):
    baseline = "xa xb xc xd xe"
    assert verdict(baseline, "xf xg xh") is Verdict.NONDETERMINISTIC
    assert verdict(baseline, "xf yg xh") is Verdict.INCONCLUSIVE


# --- what the baseline never showed ---


@pytest.mark.parametrize(
    ("baseline", "candidate"),
    [
        # One start of eight is wrong, or dies.
        ("8*xxxx", "yyyy 7*xxxx"),
        ("8*xxxx", "xxxy 7*xxxx"),
        ("8*xxxx", "----! 7*xxxx"),
        ("8*xxxx", "3*xxxx xxxx! 4*xxxx"),
        # ... also beside a flake of other requests,
        ("4*axxx 4*bxxx", "ayyy 4*axxx 3*bxxx"),
        ("4*axxx 4*bxxx", "3*axxx ----! 4*bxxx"),
        # ... and if the baseline died once, and the candidate more often.
        ("7*xxxx ----!", "2*----! 6*xxxx"),
    ],
)
def test_what_the_baseline_never_showed_is_no_flake_of_it(baseline: str, candidate: str) -> None:
    assert verdict(baseline, candidate) in {Verdict.INCONCLUSIVE, Verdict.REGRESSION}


def test_a_candidate_that_mends_a_flake_is_told_so_and_is_no_regression() -> None:
    made = starts("4*xa xb xc xd xe xf", "9*xa")
    decision = decide(made, ["r0", "r1"], RULES, complete=True)
    assert (decision.verdict, decision.mended) == (Verdict.INCONCLUSIVE, ("r1",))
    assert decision.is_final
    assert "it mends the flake, or makes that answer permanent" in decision.reason
    # A fault beside it is a fault.
    worse = decide(starts("4*xa xb xc xd xe xf", "9*za"), ["r0", "r1"], RULES, complete=True)
    assert worse.verdict is Verdict.REGRESSION


# --- starts on agents of several kinds ---


def mixed(order: str, rules: Rules) -> list[ArmStart]:
    """Starts in the order that was drawn: each word is an agent and its answers, as `h:xy`."""
    arms = sequence(rules)
    made: dict[Arm, int] = {A: 0, B: 0}
    given = []
    for arm, word in zip(arms, order.split(), strict=False):
        agent, _, answers = word.partition(":")
        made[arm] += 1
        given.append(start(arm, answers, made[arm], agent=agent))
    return given


def of(order: Sequence[tuple[str, str, str]], rules: Rules, *, complete: bool = False) -> Decision:
    """The verdict over starts of which each has an agent, and what it answers as baseline and as candidate."""
    arms = sequence(rules)
    words = [
        f"{agent}:{answers[arm is B]}" for arm, (agent, *answers) in zip(arms, order, strict=False)
    ]
    made = mixed(" ".join(words), rules)
    return decide(made, [*made[0].answers], rules, complete=complete)


DRAWN = Rules(seed=seed_of("ABBAABABB"))


def test_answers_that_follow_the_kind_of_agent_blame_nobody() -> None:
    pool = [("h", "xx", "xx"), ("h", "xx", "xx"), *[("h", "xx", "xx"), ("a", "yx", "yx")] * 7]
    assert of(pool[:2], DRAWN).verdict is Verdict.PASS
    said = of(pool, DRAWN, complete=True)
    assert said.verdict is Verdict.PASS
    assert "within each of 2 kinds of agents" in said.reason


def test_an_answer_of_another_kind_of_agent_excuses_nothing() -> None:
    # On each kind the candidate gives what the baseline gives on the other one alone.
    pool = [*[("h", "xx", "yx")] * 8, *[("a", "yx", "xx")] * 8]
    assert of(pool, DRAWN, complete=True).verdict not in {Verdict.PASS, Verdict.FLAKY}
    alike = [("h", *each[1:]) for each in pool]
    assert of(alike, DRAWN, complete=True).verdict is Verdict.FLAKY


def test_a_fault_is_red_within_kinds_if_they_leave_power_and_undecided_if_not() -> None:
    one_kind = [("h", "xx", "xz")] * 9
    assert of(one_kind, DRAWN).verdict is Verdict.REGRESSION
    two_kinds = [*[("h", "xx", "xz")] * 8, *[("a", "yx", "yz")] * 8]
    assert of(two_kinds, DRAWN, complete=True).verdict is Verdict.REGRESSION
    each_its_own = [(f"k{number // 2}", "xx", "xz") for number in range(9)]
    said = of(each_its_own, DRAWN, complete=True)
    assert said.verdict is Verdict.INCONCLUSIVE
    assert "ask for agents of one kind, such as k0" in said.reason


def test_a_kind_of_agent_on_which_nothing_works_is_never_the_changes_fault() -> None:
    pool = [
        start(A, "xx", 1, agent="h"),
        start(A, "--", 2, agent="a", failed=True),
        start(B, "--", 1, agent="a", failed=True),
    ]
    said = decide(pool, ["r0", "r1"], RULES, complete=True)
    assert said.verdict is Verdict.INCONCLUSIVE
    assert "an agent of the kind a, on which nothing works" in said.reason
    alike = [replace(each, agent="") for each in pool]
    assert decide(alike, ["r0", "r1"], RULES, complete=True).verdict is Verdict.FAILED


def test_a_candidate_alone_on_its_kind_is_never_green() -> None:
    pool = [("h", "xx", "xx"), ("h", "xx", "xx"), *[("h", "xx", "xx")] * 6, ("a", "yx", "yx")]
    assert sequence(DRAWN)[8] is B
    assert of(pool, DRAWN, complete=True).verdict is Verdict.INCONCLUSIVE


@given(st.lists(st.sampled_from(["h", "a"]), min_size=16, max_size=16), st.integers(0, 50))
def test_agents_whose_answers_follow_them_are_never_a_regression(
    agents: list[str], seed: int
) -> None:
    rules = Rules(seed=seed)
    pool = [(agent, agent, agent) for agent in agents]
    assert of(pool, rules, complete=True).verdict in {Verdict.PASS, Verdict.INCONCLUSIVE}


def test_answers_of_some_passes_alone_are_told_beside_a_count_of_none() -> None:
    silent = [start(A, "--", number, in_part=1) for number in range(1, 4)]
    told = decide(silent, ("r0", "r1"), RULES, complete=True)
    assert told.verdict is Verdict.VOID
    assert "answered 0 of 2 requests in all passes (at most 1 in some)" in told.reason
    lost = [start(B, "--", number, in_part=2) for number in range(1, 6)]
    told = decide([*starts("5*xy"), *lost], ("r0", "r1"), RULES, complete=True)
    assert told.verdict is Verdict.REGRESSION
    assert "answers 0 of 2 requests in all passes (at most 2 in some) in 5 of 5" in told.reason

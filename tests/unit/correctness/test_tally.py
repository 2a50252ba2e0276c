# SPDX-License-Identifier: Apache-2.0
"""What a start answered, and which answers count as the same."""

import math
from collections.abc import Mapping
from itertools import permutations
from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.correctness.evidence.samples import Sample
from ci_doctor.correctness.results import NearAnswers, SameAnswers, Tally, are_near
from ci_doctor.correctness.settings import (
    AnswerLevel,
    Arm,
    Comparison,
    LimitUnit,
    NumberLimit,
    read_comparison,
)
from ci_doctor.correctness.verdict.decide import canary_detected
from ci_doctor.correctness.verdict.starts import ArmStart
from ci_doctor.errors import UsageError
from ci_doctor.load.answer_items import nearest, parts
from ci_doctor.load.canonical import digest
from tests.unit.correctness.numbered import compared, completion, digest_at, outputs, start

ONE = completion("a b", -0.5, tokens=(1, 2))
OTHER_NUMBERS = completion("a b", -0.25, tokens=(1, 2))
OTHER_TOKENS = completion("a b", -0.5, tokens=(3, 2))
OTHER_WORDS = completion("a c", -0.5, tokens=(1, 2))
NO_NUMBERS = completion("a b", tokens=(1, 2))


@pytest.mark.parametrize(
    ("other", "same_at"),
    [
        (OTHER_NUMBERS, {"words", "tokens"}),
        (NO_NUMBERS, {"words", "tokens"}),
        (OTHER_TOKENS, {"words"}),
        (OTHER_WORDS, set()),
        (completion("a b", -0.5, tokens=(1, 2)), {"words", "tokens", "numbers"}),
    ],
)
def test_each_level_compares_what_is_below_it_too(
    other: dict[str, object], same_at: set[str]
) -> None:
    same = {
        level.value for level in AnswerLevel if digest_at(ONE, level) == digest_at(other, level)
    }
    assert same == same_at


def test_an_answer_of_numbers_alone_has_no_other_words() -> None:
    # Else a gate on words would pass any vector.
    one, other = (
        {"kind": "vector", "items": [{"index": 0, "numbers": [number, 1.0]}]}
        for number in (0.5, 0.25)
    )
    for level in AnswerLevel:
        assert digest_at(one, level) != digest_at(other, level)


def tally(passes: int = 1) -> Tally:
    return Tally(arm=Arm.CANDIDATE, number=2, ids=("r0", "r1"), passes=passes)


def sample(
    identity: str = "r0", digest: str | None = "x", number: int = 1, **fields: object
) -> Sample:
    values: dict[str, object] = {
        "error": None if digest else "HTTP 500",
        "digest": digest,
        **fields,
    }
    return Sample(arm="candidate", start=2, pass_=number, id=identity, **values)  # type: ignore[arg-type]


def test_every_request_has_an_outcome_also_one_that_was_never_asked() -> None:
    gathered = tally()
    gathered.add(sample("r1"))
    start = gathered.start(failed=False, outside=False)
    assert (start.name, start.answers, start.answered) == ("B2", {"r0": None, "r1": "x"}, 1)


def test_the_first_error_of_a_request_is_kept() -> None:
    gathered = tally()
    gathered.add(sample(digest=None, error="first"))
    gathered.add(sample(digest=None, error="second"))
    gathered.add(sample("r1", digest=None, error=None))
    assert gathered.errors == {"r0": "first", "r1": "no answer"}
    assert gathered.start(failed=False, outside=False).answered == 0


def test_an_answer_counts_only_where_every_pass_has_one() -> None:
    gathered = tally(passes=2)
    gathered.add(sample(number=1))
    assert gathered.start(failed=False, outside=False).answers["r0"] is None
    gathered.add(sample(number=2, digest=None))
    assert gathered.start(failed=False, outside=False).answers["r0"] is None


def test_passes_that_differ_make_another_outcome_whatever_their_order_of_arrival() -> None:
    def outcome(*digests: tuple[int, str]) -> str | None:
        gathered = tally(passes=2)
        for number, own in digests:
            gathered.add(sample(number=number, digest=own))
        return gathered.start(failed=False, outside=False).answers["r0"]

    assert outcome((1, "x"), (2, "y")) == outcome((2, "y"), (1, "x"))
    assert len({outcome((1, a), (2, b)) for a in "xy" for b in "xy"}) == 4


def test_what_the_server_says_of_the_prompt_is_kept_fact_by_fact() -> None:
    gathered = tally()
    gathered.add(
        sample(prompt_facts={"model": "m", "prompt_tokens": 7, "prompt_token_ids": [1, 2]})
    )
    gathered.add(sample("r1", prompt_facts={"model": "m"}))
    prompts = gathered.start(failed=False, outside=False).prompts
    assert prompts["r0"]["prompt_tokens"] == "7"
    assert prompts["r0"]["prompt_token_ids"].startswith("sha256 ")
    assert prompts["r1"] == {}


def test_what_two_passes_say_of_the_prompt_differently_is_kept() -> None:
    gathered = tally(passes=2)
    for number, count in ((1, 8), (2, 7)):
        gathered.add(sample(number=number, prompt_facts={"prompt_tokens": count}))
    assert gathered.start(failed=False, outside=False).prompts["r0"] == {
        "prompt_tokens": "8, then 7"
    }


def test_empty_answers_are_counted_by_request() -> None:
    gathered = tally(passes=2)
    gathered.add(sample(empty=True))
    gathered.add(sample(number=2, empty=True))
    assert gathered.start(failed=False, outside=False).empty == 1


def limit(text: str) -> NumberLimit:
    made = read_comparison(AnswerLevel.NUMBERS, text).limit
    assert made is not None
    return made


def near(one: Mapping[str, Any], other: Mapping[str, Any], text: str = "0.25 nat") -> bool:
    both = [are_near(parts(a), parts(b), limit(text)) for a, b in ((one, other), (other, one))]
    assert both[0] is both[1], "it has no direction"
    return both[0]


def test_words_and_tokens_must_be_the_same_however_near_the_numbers_are() -> None:
    one = completion("a", -1.0, tokens=(1,))
    assert near(one, completion("a", -1.25, tokens=(1,)))
    assert not near(one, completion("a", -1.5, tokens=(1,)))
    assert not near(one, completion("b", -1.0, tokens=(1,)))
    assert not near(one, completion("a", -1.0, tokens=(2,)))
    assert not near(one, completion("a", tokens=(1,))), "one side gives no numbers"


@pytest.mark.parametrize(
    ("other", "is_near"),
    [
        ({"x": -1.25, "y": -2.0}, True),
        ({"x": -1.5, "y": -2.0}, False),
        # The last alternative of one side may be the next after the last of the other.
        ({"x": -1.0, "z": -2.0}, True),
        ({"x": -1.0, "z": -2.25}, True),
        ({"x": -1.0, "z": -2.5}, False),
        ({"x": -1.0, "z": -1.5}, False),
        ({}, False),
    ],
)
def test_alternatives_are_compared_by_token_as_far_as_both_sides_list_it(
    other: dict[str, float], is_near: bool
) -> None:
    one = completion("a", -1.0, top=[{"x": -1.0, "y": -2.0}])
    assert near(one, completion("a", -1.0, top=[other])) is is_near


def test_an_answer_belongs_to_the_earliest_outcome_that_it_is_near() -> None:
    first, second, third, fourth = (completion("a", n) for n in (-1.0, -1.2, -1.4, -1.3))
    known = outputs(first, second, third, fourth)
    within = NearAnswers(limit("0.25 nat"), known)

    made = [within.outcome("r0", digest(each)) for each in (first, second, third, fourth, third)]

    # The second is near the first. The third is near the second only, so it is an outcome of its
    # own; the fourth is near both of them, and not near the first.
    assert made == [digest(each) for each in (first, first, third, third, third)]
    assert within.outcome("r1", digest(second)) == digest(second), "of another request"


ONE_SAME = completion("a", -1.0, tokens=(1,))
NEAR = completion("a", -1.01, tokens=(1,))
FAR = completion("a", -3.0, tokens=(1,))
TOKEN = completion("a", -1.0, tokens=(2,))
WORD = completion("b", -1.0, tokens=(1,))
ALL = outputs(ONE_SAME, NEAR, FAR, TOKEN, WORD)
WITHIN = read_comparison(AnswerLevel.NUMBERS, "0.1 nat")


@pytest.mark.parametrize(
    ("comparison", "same"),
    [
        (Comparison(), []),
        (WITHIN, [NEAR]),
        (Comparison(level=AnswerLevel.TOKENS), [NEAR, FAR]),
        (Comparison(level=AnswerLevel.WORDS), [NEAR, FAR, TOKEN]),
    ],
)
def test_the_answers_of_a_start_are_outcomes_at_the_gates_level(
    comparison: Comparison, same: list[dict[str, object]]
) -> None:
    for each in (NEAR, FAR, TOKEN, WORD):
        one, other = pair(comparison, [ONE_SAME], [each])
        assert (one.answers == other.answers) is (each in same), each
        for level in AnswerLevel:
            left, right = pair(Comparison(level=level), [ONE_SAME], [each])
            is_same = left.answers == right.answers
            assert (one.levels[level] == other.levels[level]) is is_same


def pair(
    comparison: Comparison, baseline: list[dict[str, Any]], candidate: list[dict[str, Any]]
) -> tuple[ArmStart, ...]:
    """A start of each arm, with its answers to one request, one a pass."""
    return compared(comparison, ALL, start("A1", baseline), start("B1", candidate)).starts


def test_every_pass_counts_at_every_level() -> None:
    for comparison, moved in ((WITHIN, FAR), (Comparison(level=AnswerLevel.WORDS), WORD)):
        for last, is_same in ((moved, False), (ONE_SAME, True)):
            one, other = pair(comparison, [ONE_SAME, NEAR], [NEAR, last])
            assert (one.answers == other.answers) is is_same


def test_a_missing_answer_is_none_at_every_level() -> None:
    (made,) = compared(WITHIN, ALL, start("A1", [ONE_SAME, None], [ONE_SAME, ONE_SAME])).starts
    assert made.answers["r0"] is None
    assert made.answers["r1"] is not None
    assert [made.levels[level]["r0"] for level in AnswerLevel] == [None] * 3


def test_the_labels_of_the_arms_play_no_part_in_the_outcomes() -> None:
    # A permutation test may only use outcomes that do not depend on the labels.
    answers = [ONE_SAME, NEAR, FAR, NEAR]
    made = set()
    for arms in permutations("AABB"):
        results = [
            start(f"{arm}{n}", [each])
            for n, (arm, each) in enumerate(zip(arms, answers, strict=True), 1)
        ]
        starts = compared(WITHIN, ALL, *results).starts
        made.add(tuple(each.answers["r0"] for each in starts))
    assert len(made) == 1


def test_a_start_that_is_no_evidence_is_the_measure_of_no_other() -> None:
    same = SameAnswers(WITHIN, ALL)
    cut = replace(start("A1", [NEAR]), cut_short=True)
    assert same.at_gate(cut) is cut
    first = same.at_gate(start("A1", [ONE_SAME]))
    assert first.start.answers == start("A1", [ONE_SAME]).start.answers


@pytest.mark.parametrize(
    "comparison", [WITHIN, *(Comparison(level=level) for level in AnswerLevel)]
)
def test_the_proof_of_the_comparison_goes_through_the_gates_level(comparison: Comparison) -> None:
    made = compared(
        comparison, ALL, start("A1", [ONE_SAME, ONE_SAME]), start("B1", [NEAR, ONE_SAME])
    )
    assert canary_detected(made, ["r0"])


def test_a_gate_that_calls_everything_equal_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = compared(WITHIN, ALL, start("A1", [ONE_SAME]), start("B1", [NEAR]))
    assert canary_detected(made, ["r0"])
    monkeypatch.setattr("ci_doctor.correctness.results.are_near", lambda *_: True)
    assert not canary_detected(made, ["r0"])


NUMBERS = AnswerLevel.NUMBERS


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("0.01 nat", 0.01, LimitUnit.NAT),
        ("1e-6nat", 1e-6, LimitUnit.NAT),
        ("4 ulp", 4, LimitUnit.ULP),
        (" 4 ULP ", 4, LimitUnit.ULP),
        ("0 nat", 0, LimitUnit.NAT),
    ],
)
def test_a_limit_is_a_number_and_its_unit(text: str, value: float, unit: LimitUnit) -> None:
    assert read_comparison(NUMBERS, text).limit == NumberLimit(value=value, unit=unit)


@pytest.mark.parametrize(
    "text", ["", "4", "nat", "-1 nat", "4 ulps", "nan nat", "inf nat", "1,5 nat"]
)
def test_anything_else_is_refused_with_the_forms_that_are_allowed(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_comparison(NUMBERS, text)
    assert '"0.01 nat"' in str(caught.value.hint)
    assert '"4 ulp"' in str(caught.value.hint)


@pytest.mark.parametrize("level", [AnswerLevel.WORDS, AnswerLevel.TOKENS])
def test_a_limit_without_numbers_to_compare_is_refused(level: AnswerLevel) -> None:
    with pytest.raises(UsageError, match=f"compare = {level}"):
        read_comparison(level, "4 ulp")
    assert read_comparison(level, None) == Comparison(level=level)


@pytest.mark.parametrize("text", ["0.01 nat", "4 ulp", "1e-06 nat", "0.12345678901 nat", "10 nat"])
def test_a_limit_is_written_as_it_is_read(text: str) -> None:
    assert str(read_comparison(NUMBERS, text).limit) == text


def test_everything_is_compared_byte_for_byte_by_default_and_said_to_be() -> None:
    assert Comparison().is_exact
    assert not Comparison(level=AnswerLevel.TOKENS).is_exact
    assert not read_comparison(NUMBERS, "0 nat").is_exact
    assert Comparison().manner == "byte for byte"
    assert "within 4 ulp" in read_comparison(NUMBERS, "4 ulp").manner
    assert Comparison(level=AnswerLevel.WORDS).manner == "in words"


def test_every_number_must_be_within_the_limit_of_its_counterpart() -> None:
    limit = NumberLimit(value=0.25, unit=LimitUnit.NAT)
    assert limit.allows([-1.0, -2.0], [-1.25, -2.0])
    assert not limit.allows([-1.0, -2.0], [-1.5, -2.0])
    assert not limit.allows([-1.0], [-1.0, -1.0]), "a number that only one side gives"
    assert limit.allows([-math.inf], [-math.inf])
    assert not limit.allows([-math.inf], [-1.0])


def test_steps_of_float32_are_a_limit_for_numbers_of_any_size() -> None:
    limit = NumberLimit(value=1, unit=LimitUnit.ULP)
    (small, large) = nearest([-0.25, -1024.0])
    assert limit.allows([small, large], [-0.25000003, -1024.0001])
    assert not limit.allows([small], [-0.2500001])

# SPDX-License-Identifier: Apache-2.0
"""Tests of the samples of a start."""

# SPDX-License-Identifier: Apache-2.0
# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.correctness.evidence.samples import Sample
from ci_doctor.correctness.settings import AnswerLevel, Arm
from ci_doctor.correctness.tally import Tally, outcome
from tests.unit.correctness.archived import IDS, made
from tests.unit.correctness.numbered import completion, digest_at

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
        for number, digest in digests:
            gathered.add(sample(number=number, digest=digest))
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


@pytest.mark.parametrize("passes", [1, 2, 3])
def test_an_outcome_is_that_of_the_tally(tmp_path: Path, passes: int) -> None:
    result, _ = made(tmp_path / "samples.jsonl", passes=passes)

    assert {
        request: outcome(each, passes) for request, each in result.digests.items()
    } == result.start.answers
    assert outcome({}, passes) is None
    empty = Tally(arm=Arm.BASELINE, number=1, ids=IDS, passes=passes).start(
        failed=False, outside=False
    )
    assert set(empty.answers.values()) == {None}

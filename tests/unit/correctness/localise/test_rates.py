# SPDX-License-Identifier: Apache-2.0
"""What rates show where no cause fits each answer, and what they do not."""

from collections.abc import Sequence

from msgspec.structs import replace

from ci_doctor.correctness.localise.rates import by_rate
from ci_doctor.correctness.localise.trials import LocalisedDifference, TrialSend
from ci_doctor.load.requests import Request
from tests.unit.correctness.localise.subjects import sends_of, subject

ALONE = [TrialSend(name="r0", block=at, at_once=1, wrong=False) for at in range(40)]


def said_of(
    of: LocalisedDifference, *lanes: Sequence[TrialSend], copies: Sequence[Request] = ()
) -> str:
    """What the rates in these starts show, of which some sent copies of r0."""
    requests = {each.id: each for each in (*of.requests, *copies)}
    return by_rate(lanes, of, requests, {each.id: "r0" for each in copies})


def test_few_sends_show_no_load_and_few_starts_do_not_either() -> None:
    at_once = [TrialSend(block=0, name="r0", at_once=4, wrong=place < 4) for place in range(8)]
    alone = ALONE[:1] * 40
    many = said_of(subject(), alone, alone, at_once, at_once)
    assert many == "requests differed only at once with others (one at a time: equal)"
    assert not said_of(subject(), alone[:4], alone[:4], at_once, at_once)
    # Of the run some starts do not show it: so may the two have been.
    assert not said_of(subject(differing_pairs=10), alone, alone, at_once, at_once)


def test_two_parameters_that_only_those_which_differ_have_are_said_with_counts() -> None:
    """Of those with both some are equal: their answers never come to the fault."""
    bodies = [
        {"prompt": f"Say {at}", **({"stop": "a"} if at % 4 in {0, 1} else {}), **({"stream": True} if at % 4 in {0, 2} else {})}
        for at in range(32)
    ]  # fmt: skip
    of = subject(["r0"], bodies)
    copies = []
    for key in ("stop", "stream"):
        body = {name: value for name, value in bodies[0].items() if name != key}
        copies.append(replace(of.request, id=f"r0 without `{key}`", body=body))
    lane = sends_of(
        *((f"r{at}", at in {0, 4, 8, 12}, "one two") for at in range(32)),
        ("r0 without `stop`", False, "one two three"),
        ("r0 without `stream`", False, "one two"),
    )
    assert said_of(of, lane, copies=copies) == (
        "only requests with `stop` that are also requests with `stream` differed: "
        "4 of 8 such sends, and none of 26 others"
    )
    # A copy whose answer is another one may have left the fault behind with the answer.
    other = [*lane[:-2], *(replace(each, said="no") for each in lane[-2:])]
    assert not said_of(of, other, copies=copies)


def test_what_a_request_must_be_at_once_with_is_said() -> None:
    """The order of arrival decides whether it differs: now and then it does."""
    bodies = [{"prompt": f"Say {at}", "model": "ab"[at % 2]} for at in range(32)]
    lane = list[TrialSend]()
    for at in range(1, 32):
        for turn in range(3):
            lane += [
                TrialSend(name=name, block=3 * at + turn, at_once=2, wrong=wrong)
                for name, wrong in (("r0", at % 2 == 1 and turn > 0), (f"r{at}", False))
            ]
    assert said_of(subject(bodies=bodies), ALONE, ALONE, lane, lane) == (
        "requests differed only with 2 or more at once (one at a time: equal), and requests differed only "
        "at once with requests with `model` b: 64 of 96 such sends, and none of 276 others"
    )


def test_a_sum_that_parts_all_groups_is_said_without_what_those_at_once_hold() -> None:
    bodies = [{"prompt": f"Say {at}", "max_tokens": 3 + at % 2} for at in range(32)]
    lane = list[TrialSend]()
    for at in range(1, 32):
        # Of those that r0 is at once with the odd ones are long.
        sizes = (40, 60 + at if at % 2 else 9 + at)
        lane += [
            TrialSend(
                name=name,
                block=at,
                at_once=2,
                wrong=name == "r0" and at % 2 == 1,
                prompt_tokens=size,
            )
            for name, size in zip(("r0", f"r{at}"), sizes, strict=True)
        ]
    alone = [replace(each, prompt_tokens=40) for each in ALONE]
    assert said_of(subject(bodies=bodies), alone, alone, lane, lane) == (
        "requests differed only where prompts of 101 tokens or more in all were under way at once "
        "(79: equal; one at a time: equal)"
    )


def groups(size: int, *wrong: Sequence[bool | None]) -> list[TrialSend]:
    """20 groups of r0, r1 …, by turns with each of these patterns of what differs."""
    return [
        TrialSend(name=f"r{at}", block=block, at_once=size, wrong=pattern[at % len(pattern)])
        for block in range(20)
        for pattern in [wrong[block % len(wrong)]]
        for at in range(size)
    ]


def test_a_start_with_fewer_at_once_is_as_quiet_as_one_with_each_alone() -> None:
    small = groups(2, (False,))
    large = groups(4, (True, False, False, False), (False,))
    said = "requests differed only with 4 or more at once (2: equal; one at a time: equal)"
    assert said_of(subject(), ALONE, small, large, large) == said
    assert not said_of(subject(), ALONE, large, large)


def test_a_copy_in_the_place_of_a_request_among_the_same_others_tells_what_it_needs() -> None:
    """At once with most others it does not differ, so the rate of all says nothing of so few copies."""
    bodies = [{"prompt": f"Say {at}", **({"logprobs": 2} if at < 2 else {})} for at in range(16)]
    of = subject(["r0"], bodies)
    copy = replace(of.request, id="r0 without `logprobs`", body={"prompt": "Say 0"})
    pairs = [(name, f"r{at}") for at in range(2, 16) for name in ("r0", "r0", "r0", "r1")]
    pairs.append((copy.id, "r2"))
    lane = [
        TrialSend(name=name, block=block, at_once=2, wrong=pair == ("r0", "r2") and name == "r0")
        for block, pair in enumerate(pairs)
        for name in pair
    ]
    said = said_of(of, ALONE, ALONE, lane, lane, copies=[copy])
    assert said.startswith("only requests with `logprobs` differed"), said
    # The copy is at once with another request.
    moved = [*lane[:-1], replace(lane[-1], name="r3")]
    assert "logprobs" not in said_of(of, ALONE, ALONE, moved, moved, copies=[copy])


def test_a_group_without_an_answer_is_not_equal() -> None:
    known, unknown = groups(2, (False,)), groups(2, (None,))
    large = groups(4, (True, False), (False,))
    said = "requests differed only with 4 or more at once"
    expected = f"{said} (2: equal; one at a time: equal)"
    assert said_of(subject(), ALONE, ALONE, known, large, large) == expected
    expected = f"{said} (one at a time: equal)"
    assert said_of(subject(), ALONE, ALONE, unknown, large, large) == expected
    # A start without an answer is no quiet one.
    assert not said_of(subject(), ALONE, unknown, large, large)

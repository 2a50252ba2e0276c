# SPDX-License-Identifier: Apache-2.0
"""Kinds of faults that were written before their author knew how `ci_doctor.correctness.localise` names any: three sets of 16.

The search was changed after the first run of a set, and may know its kinds since. The first run is what counts.
"""

import random
from collections.abc import Sequence

from localising_faults import (
    ANY,
    GREEDY,
    IDLE,
    KNOWN,
    SAME,
    SAMPLED,
    Condition,
    Kind,
    Like,
    back,
    beside,
    came,
    composed,
    distinct,
    equal,
    every,
    from_on,
    from_token,
    has,
    itself,
    lacks,
    last,
    late,
    messages,
    multiple,
    other,
    shares,
    sized,
    under_way,
    valued,
)
from localising_server import FOREIGN, Body, View, answer_words, size_of, text_of

from ci_doctor.correctness.localise.trials import common, pieces


def _first_sign(view: View) -> int | None:
    said = answer_words(view.body)
    signs = [at for at, each in enumerate(said) if each in FOREIGN]
    return signs[0] if signs and "stream" in view.body else None


def _at_its_limit(view: View) -> int | None:
    count = len(answer_words(view.body))
    return count - 1 if count >= view.body.get("max_tokens", 16) else None


def _ring(draw: random.Random) -> Condition:
    period = draw.randint(2, 4)
    return distinct(
        f"the different prompts so far are a multiple of {period}", lambda n: n % period == 0
    )


UNSEEN: dict[str, Kind] = {
    # A stop string ends the answer before `min_tokens`.
    "stop_too_early": lambda _: itself(has("stop", "min_tokens")),
    # All blocks of a prompt are in the cache, so that nothing is left to compute.
    "full_blocks": lambda d: came(SAME) & itself(multiple(d.choice([4, 8]))),
    # An adapter's slot was used by another one.
    "adapter_returns": lambda _: came(equal("model")) & last(other("model")),
    # The rows of a grammar's mask are those of all requests of a batch.
    "mask_row": lambda _: itself(has("response_format")) & beside(lacks("response_format")),
    "greedy_in_a_sampled_batch": lambda _: itself(GREEDY) & beside(SAMPLED),
    # Drafted tokens are accepted by the wrong distribution.
    "drafts": lambda d: from_token(d.choice([4, 8]), itself(has("top_k"))),
    # Log probabilities of a prompt that is computed in chunks.
    "chunked_logprobs": lambda d: itself(has("logprobs") & sized(d.choice([24, 48]))),
    "ring_of_slots": _ring,
    "late": lambda d: late(d.choice([0.3, 0.6])),
    # The last token of an answer that ends by `max_tokens`.
    "at_its_limit": lambda _: Condition("the last token at `max_tokens`", _at_its_limit, 0),
    # A sign of several bytes is cut between two events.
    "signs_of_a_stream": lambda _: Condition(
        "streams, from the first sign beyond ASCII", _first_sign, 0
    ),
    # Blocks are shared before they are computed.
    "prefix_under_way": lambda d: under_way(shares(d.choice([6, 12]))),
    # A decode beside a prefill.
    "short_beside_long": lambda d: (
        itself(sized(0, d.choice([16, 24]))) & beside(sized(d.choice([48, 96])))
    ),
    # A buffer grows.
    "longest_so_far": lambda _: Condition(
        "longer than each before, and not first",
        lambda v: bool(v.before) and size_of(v.body) > max(map(size_of, v.before)),
    ),
    # What is used often is moved to another tier.
    "third_time": lambda d: from_on(d.choice([3, 4]), SAME),
    # Requests with `prompt_logprobs` and the like leave blocks without values.
    "prefix_of_another_form": lambda d: came(
        shares(d.choice([4, 8])) & has(d.choice(["logprobs", "stream", "min_tokens"]))
    ),
}


def up_to(key: str, most: int) -> Like:
    return Like(f"with `{key}` {most} or less", lambda _, each: each.get(key, most + 1) <= most)


def is_(key: str, value: object) -> Like:
    return Like(f"with `{key}` {value}", lambda _, each: each.get(key) == value)


def no(like: Like) -> Like:
    return Like(f"not {like.words}", lambda v, each: not like.holds(v, each))


def _different(since: Sequence[Body]) -> int:
    return len({text_of(each) for each in since})


def _budget(draw: random.Random) -> Condition:
    size = draw.choice([150, 250])
    return Condition(
        f"prompts of {size} tokens under way", lambda v: bool(v.beside) and v.load >= size
    )


UNSEEN_2: dict[str, Kind] = {
    # One row's penalties are applied to the whole batch.
    "penalty_row": lambda _: (
        itself(lacks("repetition_penalty")) & beside(has("repetition_penalty"))
    ),
    # The slot of a sampler keeps the penalties of its last request.
    "penalty_slot": lambda _: itself(GREEDY) & last(has("repetition_penalty")),
    # The greedy shortcut leaves out the bias.
    "bias_greedy": lambda _: itself(has("logit_bias") & GREEDY),
    # A last block that is not full is shared by several samples, and written to.
    "copy_on_write": lambda d: itself(has("n") & no(multiple(d.choice([4, 8])))),
    # Blocks of a prompt that was computed in chunks.
    "prefix_of_chunks": lambda d: came(shares(d.choice([4, 8])) & sized(d.choice([48, 64]))),
    "two_adapters": lambda _: itself(has("model")) & beside(has("model") & other("model")),
    # A decode that takes a new block beside another request.
    "block_beside": lambda d: from_token(d.choice([8, 16]), beside(ANY)),
    "short_streams": lambda d: itself(has("stream") & up_to("max_tokens", d.choice([8, 16, 24]))),
    # What was sampled is cached without the seed.
    "seed_ignored": lambda _: itself(SAMPLED) & came(SAME & other("seed")),
    "tool_turns": lambda _: itself(has("tools") & messages(3)),
    # Graphs are not captured yet.
    "warming": lambda d: Condition(
        f"in the first {(s := d.choice([0.15, 0.3, 0.5]))} s", lambda v: v.since_s < s
    ),
    # A cache of so many prompts, the least recently used one leaves.
    "least_recent": lambda d: back("different prompts", _different, d.randint(3, 5)),
    "each_so_many_long": lambda d: every(d.randint(2, 3), sized(d.choice([24, 48]))),
    # A grammar's state is not reset.
    "grammar_again": lambda _: itself(has("response_format")) & came(equal("response_format")),
    # The stop strings of the request before in this slot.
    "stop_left": lambda _: itself(lacks("stop")) & last(has("stop")),
    "long_in_a_full_budget": lambda d: itself(sized(d.choice([24, 48]))) & _budget(d),
}


def _nearly_cached(draw: random.Random) -> Condition:
    rest = draw.choice([2, 6])

    def holds(v: View) -> bool:
        text = text_of(v.body)
        shared = max((pieces(text, common(text, text_of(each))) for each in v.before), default=0)
        return shared >= 6 and size_of(v.body) - shared <= rest

    return Condition(f"all but {rest} tokens in the cache", holds)


def _last_of_a_stream(view: View) -> int | None:
    count = len(answer_words(view.body))
    ends = count < view.body.get("max_tokens", 16) and "stream" in view.body
    return count - 1 if ends else None


def _full_cache(draw: random.Random) -> Condition:
    size = draw.choice([150, 300])

    def holds(v: View) -> bool:
        sizes = {text_of(each): size_of(each) for each in [*v.before, v.body]}
        return sum(sizes.values()) >= size

    return Condition(f"different prompts of {size} tokens so far", holds)


UNSEEN_3: dict[str, Kind] = {
    "salt_missing": lambda d: (
        itself(lacks("cache_salt")) & came(shares(d.choice([4, 6])) & has("cache_salt"))
    ),
    "idle_stream": lambda _: IDLE & itself(has("stream")),
    "least_and_no_stop": lambda _: itself(valued("min_tokens", 12) & lacks("stop")),
    "one_top_k_for_all": lambda _: itself(has("top_k")) & beside(has("top_k") & other("top_k")),
    "logprobs_of_samples": lambda d: from_token(
        d.choice([4, 6]), itself(has("logprobs") & SAMPLED)
    ),
    "nearly_cached": _nearly_cached,
    # The last piece of a stream that ends by itself.
    "last_of_a_stream": lambda _: Condition(
        "streams, the last token before `max_tokens`", _last_of_a_stream, 0
    ),
    "same_among_two": lambda _: last(SAME, 2),
    "adapter_replaced": lambda _: itself(has("model")) & came(has("model") & other("model")),
    "chat_after_tools": lambda d: itself(messages(1)) & last(has("tools"), d.choice([1, 2])),
    "third_slot": lambda d: Condition(
        f"at its arrival {(n := d.choice([2, 3]))} or more are under way",
        lambda v: len(v.here) >= n,
    ),
    "each_so_many_greedy": lambda d: every(d.randint(3, 4), GREEDY),
    "late_and_long": lambda d: itself(sized(d.choice([12, 24]))) & late(d.choice([0.2, 0.4])),
    "full_cache": _full_cache,
    "one_seed": lambda d: itself(is_("seed", d.choice([1, 7, 42]))),
    "bias_left": lambda _: itself(lacks("logit_bias")) & last(has("logit_bias")),
}


def faults(group: str) -> dict[str, Kind]:
    """The kinds of a group by their names. Raises KeyError if there is none."""
    drawn: dict[str, Kind] = {f"composed-{number}": composed for number in range(1, 17)}
    return {
        "known": KNOWN,
        "unseen": UNSEEN,
        "unseen-2": UNSEEN_2,
        "unseen-3": UNSEEN_3,
        "composed": drawn,
    }[group]

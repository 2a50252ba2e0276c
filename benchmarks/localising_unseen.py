# SPDX-License-Identifier: Apache-2.0
"""Kinds of faults whose authors did not know how `ci_doctor.correctness.localise` names any: four sets of 16.

The authors of RARE_1 and RARE_2 were asked for realistic faults, those of USUAL_1 and USUAL_2 for faults that are often
reported. The search was changed after the first run of a set, and may know its kinds since. The first run is what counts.
"""

import random
from collections.abc import Sequence

from localising_faults import (
    ANOTHER,
    ANY,
    CONTINUED,
    GREEDY,
    KNOWN,
    SAME,
    SAMPLED,
    SEEDED,
    SIGNS,
    Condition,
    Kind,
    Like,
    back,
    beside,
    came,
    composed,
    equal,
    from_token,
    has,
    itself,
    lacks,
    last,
    messages,
    numbered,
    other,
    shares,
    sized,
    valued,
)
from localising_server import FOREIGN, Body, View, answer_words, size_of, text_of

from ci_doctor.correctness.localise.trials import common, pieces


def up_to(key: str, most: int) -> Like:
    return Like(f"with `{key}` {most} or less", lambda _, each: each.get(key, most + 1) <= most)


def is_(key: str, value: object) -> Like:
    return Like(f"with `{key}` {value}", lambda _, each: each.get(key) == value)


def no(like: Like) -> Like:
    return Like(f"not {like.words}", lambda v, each: not like.holds(v, each))


def says(what: str) -> Like:
    return Like(f"with {what} in its prompt", lambda _, each: what in text_of(each))


def _ends_in_signs(_: View, each: Body) -> bool:
    return text_of(each).endswith(FOREIGN)


def _stop_in_prompt(_: View, each: Body) -> bool:
    return any(one in text_of(each) for one in each.get("stop", ()))


def _last_word_again(view: View) -> bool:
    words = [each.strip(".?!").lower() for each in text_of(view.body).split()]
    return words[-1] in words[:-1]


def _shared(view: View, each: Body) -> int:
    """The first tokens that a body has as the one that a server looks at."""
    text = text_of(view.body)
    return pieces(text, common(text, text_of(each)))


def _context(draw: random.Random) -> Condition:
    size = draw.choice([64, 96, 128])
    return Condition(
        f"prompt and `max_tokens` over {size} tokens",
        lambda v: size_of(v.body) + v.body.get("max_tokens", 16) > size,
    )


def _inside_a_page(draw: random.Random) -> Condition:
    page = draw.choice([4, 8])

    def holds(v: View) -> bool:
        most = max((_shared(v, each) for each in v.before), default=0)
        return most > page and most % page != 0 and most < size_of(v.body)

    return Condition(f"what the cache has of it ends inside a page of {page} tokens", holds)


def _longest(since: Sequence[Body]) -> int:
    return max(map(size_of, since), default=0)


def _cascade(draw: random.Random) -> Condition:
    like = shares(draw.choice([4, 8]))
    return Condition(
        f"at its arrival some are under way, all {like.words}",
        lambda v: bool(v.here) and len(like.of(v, v.here)) == len(v.here),
    )


def _sequences(bodies: Sequence[Body]) -> int:
    return sum(each.get("n", 1) for each in bodies)


def _most_sequences(draw: random.Random) -> Condition:
    most = draw.randint(4, 6)
    return Condition(
        f"{most} answers or more under way at its arrival, its own and each of `n` among them",
        lambda v: bool(v.here) and _sequences([*v.here, v.body]) >= most,
    )


def _sequence_slot(draw: random.Random) -> Condition:
    slots = draw.randint(3, 5)
    return Condition(
        f"the answers before it, each of `n` counted, are {slots - 1} over a multiple of {slots}",
        lambda v: _sequences(v.before) % slots == slots - 1,
    )


def _loading(draw: random.Random) -> Condition:
    seconds = draw.choice([0.15, 0.3, 0.5])
    return Condition(f"in the first {seconds} s", lambda v: v.since_s < seconds)


def _scales(draw: random.Random) -> Condition:
    times = draw.choice([1, 2])
    return Condition(
        f"over {times} times as long as the start's first prompt",
        lambda v: bool(v.before) and size_of(v.body) > times * size_of(v.before[0]),
    )


def _held_back(view: View) -> int | None:
    count = len(answer_words(view.body))
    ends = count >= view.body.get("max_tokens", 16)
    return count - 1 if ends and {"stream", "stop"} <= view.body.keys() else None


def _models(view: View) -> bool:
    return len({each.get("model") for each in [*view.before, view.body]}) >= 3


def _reloaded(draw: random.Random) -> Condition:
    size, count = draw.choice([6, 10]), draw.randint(2, 4)

    def holds(v: View) -> bool:
        shared = [_shared(v, each) >= size for each in v.before]
        return any(shared) and not any(shared[-count:])

    return Condition(
        f"after one with its first {size} tokens, but not up to {count} after one", holds
    )


def _padded(draw: random.Random) -> Condition:
    count = draw.choice([1, 2])
    return Condition(f"at its arrival exactly {count} under way", lambda v: len(v.here) == count)


def _crowded(draw: random.Random, *sizes: int) -> Condition:
    size = draw.choice(sizes)
    return Condition(
        f"prompts of {size} tokens under way", lambda v: bool(v.beside) and v.load >= size
    )


def _allocated(draw: random.Random) -> Condition:
    size = draw.choice([150, 300])
    return Condition(f"{size} tokens served", lambda v: v.served >= size)


RARE_1: dict[str, Kind] = {
    # Its token is 0, which pads.
    "token_zero": lambda _: itself(says("!")),
    # A schema's grammar; that of any object is right.
    "schema": lambda _: itself(
        Like(
            "with a `json_schema`",
            lambda _, each: each.get("response_format", {}).get("type") == "json_schema",
        )
    ),
    # The order of two steps of a sampler.
    "penalty_and_bias": lambda _: itself(has("repetition_penalty", "logit_bias")),
    # Stop strings are looked for in the prompt's text too.
    "stop_in_prompt": lambda _: itself(
        Like("with one of its `stop` in its prompt", _stop_in_prompt)
    ),
    # Blocks are reserved up to `max_tokens`, more than a row of the block table holds.
    "block_table_row": _context,
    # A node of the radix tree is split where two prompts part.
    "split_node": lambda d: came(shares(d.choice([6, 10])) & ANOTHER & no(CONTINUED)),
    # The key of a rendered chat leaves the tools out.
    "tools_not_in_key": lambda d: came(
        d.choice([SAME, shares(12)]) & has("messages") & other("tools")
    ),
    # A row of the grammars' masks is not reset when its request ends.
    "mask_left": lambda d: (
        itself(lacks("response_format")) & last(has("response_format"), d.choice([1, 2]))
    ),
    # The rest of a page that is shared in part is not computed.
    "inside_a_page": _inside_a_page,
    # A long prompt drove its blocks to the host's memory, from where they come back wrong.
    "offloaded_by_a_long_one": lambda d: back("tokens in a prompt", _longest, d.choice([48, 96])),
    # Attention to what all that run have in common is computed once.
    "cascade": _cascade,
    # More rows than a batch has, as samples are counted as one.
    "most_sequences": _most_sequences,
    # The adapter's weights are not there yet, and those of the base are taken.
    "adapter_loading": lambda d: itself(has("model")) & _loading(d),
    # Two rows draw from one generator.
    "one_generator_a_seed": lambda _: itself(SEEDED) & beside(SEEDED & equal("seed")),
    # The scales of an FP8 cache are those of the first prompt.
    "scales_of_the_first": _scales,
    # What could be the begin of a stop string is held back, and is lost at `max_tokens`.
    "held_back": lambda _: Condition(
        "streams with `stop`, the last token at `max_tokens`", _held_back, 0
    ),
}

RARE_2: dict[str, Kind] = {
    # Minus infinity times 0.
    "banned_token": lambda _: itself(is_("logit_bias", {"50": -100})),
    # The detokeniser begins with the prompt's last tokens, which are no whole sign.
    "ends_in_signs": lambda _: itself(
        Like("with a prompt that ends with signs beyond ASCII", _ends_in_signs)
    ),
    # Samples of a greedy request are made one, and counted as several.
    "greedy_samples": lambda _: itself(has("n") & GREEDY),
    # The penalty sees the last chunk of a prompt only.
    "penalty_of_chunks": lambda d: itself(has("repetition_penalty") & sized(d.choice([24, 48]))),
    # Drafts are looked up in the prompt.
    "prompt_lookup": lambda _: Condition("its last word is in its prompt before", _last_word_again),
    # Whole answers are cached, without the temperature.
    "temperature_not_in_key": lambda _: itself(GREEDY) & came(SAME & SAMPLED),
    # The blocks of an answer are kept for the next turn, without the adapter.
    "next_turn_of_another_model": lambda _: came(CONTINUED & other("model")),
    # The base and both adapters were loaded, and there are two slots.
    "slots_full": lambda _: itself(has("model")) & Condition("three models so far", _models),
    # A prefix comes from the host, not from the device, where it was used just now.
    "reloaded_prefix": _reloaded,
    # The tokens of a prompt that are in the cache are not counted.
    "penalty_of_cached": lambda d: (
        itself(has("repetition_penalty")) & came(shares(d.choice([4, 8])))
    ),
    # A graph of more rows than the batch has.
    "padded_batch": _padded,
    # A preempted request draws its random numbers again.
    "recomputed_seed": lambda d: itself(SEEDED) & _crowded(d, 120, 200),
    # One slot of the batch's state, taken in turn.
    "sequence_slot": _sequence_slot,
    # Only one of two prompts can be computed in part.
    "two_partial_prefills": lambda d: (
        itself(sized(size := d.choice([24, 48]))) & beside(sized(size))
    ),
    # A grammar is compiled while its first request is answered already.
    "first_of_a_form": lambda _: (
        itself(has("response_format"))
        & numbered("the first", lambda number: number == 1, equal("response_format"))
    ),
    # Blocks are freed, though a prompt that begins alike was promised them.
    "freed_and_promised": lambda d: came(shares(d.choice([6, 10]))) & _allocated(d),
}


def _evicted_prefix(draw: random.Random) -> Condition:
    size, least = draw.choice([6, 10]), draw.choice([60, 120])

    def holds(v: View) -> bool:
        owners = [at for at in range(len(v.before)) if _shared(v, v.before[at]) >= size]
        return bool(owners) and sum(map(size_of, v.before[owners[-1] + 1 :])) >= least

    return Condition(f"its first {size} tokens came, {least} tokens of others since", holds)


def _padded_to(draw: random.Random) -> Condition:
    captured = draw.choice([(1, 2, 4, 8), (1, 4, 8)])
    return Condition(
        f"as it comes other than {captured} are under way, itself counted",
        lambda v: len(v.here) + 1 not in captured,
    )


def _similar_slot(draw: random.Random) -> Condition:
    part = draw.choice([0.3, 0.5])
    return Condition(
        f"right after one that its first {part} are shared with",
        lambda v: bool(v.before) and _shared(v, v.before[-1]) >= part * size_of(v.body),
    )


USUAL_1: dict[str, Kind] = {
    # vLLM: `n` samples write to a last block that came out of the prefix cache.
    "samples_of_a_prefix": lambda d: itself(has("n")) & came(shares(d.choice([6, 10]))),
    # vLLM: Punica's indices give an adapter's weights to a row without one.
    "base_beside_adapter": lambda _: itself(lacks("model")) & beside(has("model")),
    # vLLM, SGLang: the second adapter that is loaded is read with the first one's rank and scale.
    "second_adapter": lambda _: itself(is_("model", "lora-b")),
    # vLLM: `response_format` is dropped where tools are given.
    "form_and_tools": lambda _: itself(has("response_format", "tools")),
    # xgrammar in vLLM and SGLang: what a schema demands compiles to another grammar.
    "schema_only": lambda _: itself(
        is_("response_format", {"type": "json_schema", "json_schema": {"name": "town"}})
    ),
    # Templates put tools beside the last user's turn, so that the cached turns are not those.
    "tools_in_a_talk": lambda _: itself(has("tools")) & came(CONTINUED),
    # vLLM: the counts of tokens for penalties are lost where a request is preempted.
    "penalty_preempted": lambda d: itself(has("repetition_penalty")) & _crowded(d, 120, 180),
    # vLLM, TGI: all of `n` samples have the one generator of a seed.
    "seed_of_samples": lambda _: itself(SEEDED & has("n")),
    # TGI, llama.cpp, TensorRT-LLM: a stream holds back or sends part of a stop string.
    "stop_in_a_stream": lambda _: itself(has("stop", "stream")),
    # vLLM, SGLang: the bias is added after the grammar's mask.
    "bias_and_form": lambda _: itself(has("logit_bias", "response_format")),
    # llama.cpp: a tokenizer's pattern splits text beyond ASCII otherwise.
    "signs": lambda _: itself(SIGNS),
    # After a request that should have been refused, its state stays in the slot.
    "after_impossible": lambda d: last(
        valued("min_tokens", 12) & up_to("max_tokens", 8), d.randint(1, 3)
    ),
    # vLLM, SGLang: the first tokens are decoded while the grammar still compiles.
    "first_grammar": lambda _: numbered(
        "the first", lambda number: number == 1, has("response_format")
    ),
    # SGLang's HiCache, LMCache: a prefix that was moved to the host is loaded to wrong pages.
    "evicted_prefix": _evicted_prefix,
    # vLLM: cascade attention, which takes a shared prefix and a batch.
    "cached_and_crowded": lambda d: came(shares(d.choice([8, 12]))) & beside(ANY),
    # vLLM, SGLang: a batch is padded to the next size that has a CUDA graph.
    "padded_graph": _padded_to,
}

USUAL_2: dict[str, Kind] = {
    # vLLM, SGLang: pieces of several choices are mixed in a stream.
    "streamed_samples": lambda _: itself(has("n", "stream")),
    # vLLM, TensorRT-LLM: tokens are lost where a stream carries log probabilities.
    "streamed_logprobs": lambda _: itself(has("logprobs", "stream")),
    # FlashInfer's sampler takes top-k after the renormalised top-p.
    "sampled_top_k": lambda _: itself(has("top_k") & SAMPLED),
    # vLLM: prefix caching gives other output for an adapter's prompt.
    "adapter_repeats": lambda _: itself(has("model")) & came(SAME & equal("model")),
    # vLLM: chunked prefill is wrong where a chunk shares a step with decodes.
    "long_and_crowded": lambda d: itself(sized(d.choice([32, 64]))) & beside(ANY),
    # Prompt and `max_tokens` are near the model's length, where RoPE's scale changes.
    "near_full_context": lambda d: itself(sized(d.choice([32, 64])) & valued("max_tokens", 48)),
    # vLLM: a short prompt reads what a long one left in a persistent buffer.
    "short_after_long": lambda d: (
        itself(sized(0, d.choice([16, 32]))) & last(sized(d.choice([48, 80])))
    ),
    # TGI, TensorRT-LLM: the greedy path leaves out penalties.
    "penalty_greedy": lambda _: itself(has("repetition_penalty") & GREEDY),
    # vLLM: `min_tokens` beyond `max_tokens` is taken as it is.
    "least_over_most": lambda _: itself(valued("min_tokens", 12) & up_to("max_tokens", 8)),
    # vLLM, SGLang: the stop tokens of a chat's template replace a request's `stop`.
    "stop_of_a_chat": lambda _: itself(has("stop") & messages(1)),
    # vLLM, llama.cpp: the template and the tokenizer both put the token of the beginning.
    "begins_twice": lambda _: itself(messages(1)),
    # SGLang, vLLM: a batch's rows get the mask of another grammar.
    "two_grammars": lambda _: (
        itself(has("response_format")) & beside(has("response_format") & other("response_format"))
    ),
    # LMCache, vLLM: equal prompts that come at once write the same blocks.
    "same_at_once": lambda _: beside(SAME),
    # SGLang: jump-forward decoding tokenizes what was said again.
    "jump_forward": lambda d: from_token(d.choice([3, 6]), itself(has("response_format"))),
    # llama.cpp, vLLM: an adapter stays applied for requests without one.
    "base_after_adapter": lambda _: itself(lacks("model")) & came(has("model")),
    # llama.cpp: a slot is chosen by similarity, and what differs is not removed from its cache.
    "similar_slot": _similar_slot,
}


GROUPS: dict[str, dict[str, Kind]] = {
    "known": KNOWN,
    "rare-1": RARE_1,
    "rare-2": RARE_2,
    "usual-1": USUAL_1,
    "usual-2": USUAL_2,
    # Conditions that are drawn, not written.
    "composed": {f"composed-{number}": composed for number in range(1, 17)},
}

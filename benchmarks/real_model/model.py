# SPDX-License-Identifier: Apache-2.0
"""Runs where torch is: the Llama of transformers with 4 layers and random weights, its words, and its faults.

The weights are drawn once from a seed and saved; each start loads the file. So the answers are gibberish, and their
computation is that of a real model.
"""

import itertools
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers.models.llama import LlamaConfig, LlamaForCausalLM

SEED = 20_261_123
VOCABULARY = 2000
# Any of these ends an answer, so that lengths differ.
END_TOKENS = 40
# The rope fault moves each position from here on by one.
LONG = 128
# The weight fault changes one of 4 million, by a quarter of their standard deviation.
WRONG_LAYER, WRONG_ROW, WRONG_COLUMN, WRONG_BY = 2, 7, 11, 0.02
SYLLABLES = ["".join(each) for each in itertools.product("bcdfghjklmnprstvwxyz", "aeiou")]


def make(folder: Path) -> None:
    """Draw the weights and save them."""
    torch.manual_seed(SEED)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=704,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=512,
        # Wider than usual: with 0.02 random weights make all tokens equally likely.
        initializer_range=0.08,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=list(range(END_TOKENS)),
        pad_token_id=0,
    )
    LlamaForCausalLM(config).save_pretrained(folder)


def load(folder: Path, dtype: str, fault: str) -> LlamaForCausalLM:
    """The saved model in a type, with a fault or `none`."""
    model = LlamaForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()
    FAULTS[fault](model)
    return model


def _no_fault(_: LlamaForCausalLM) -> None:
    """The model as it is."""


def _wrong_weight(model: LlamaForCausalLM) -> None:
    weight = model.model.layers[WRONG_LAYER].mlp.down_proj.weight
    with torch.no_grad():
        weight[WRONG_ROW, WRONG_COLUMN] += WRONG_BY


def _wrong_rope(model: LlamaForCausalLM) -> None:
    """Off by one: between a token before `LONG` and one after it the distance is one too many."""

    def moved(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        positions = kwargs["position_ids"]
        kwargs["position_ids"] = positions + (positions >= LONG)
        return args, kwargs

    model.model.rotary_emb.register_forward_pre_hook(moved, with_kwargs=True)


FAULTS: dict[str, Callable[[LlamaForCausalLM], None]] = {
    "none": _no_fault,
    "weight": _wrong_weight,
    "rope": _wrong_rope,
}


def tokens_of(text: str) -> list[int]:
    """A token for each word, by a hash; never one that ends an answer."""
    usual = VOCABULARY - END_TOKENS
    return [END_TOKENS + zlib.crc32(word.encode()) % usual for word in text.split()]


def word_of(token: int) -> str:
    """Of two syllables, different for each token."""
    first, second = divmod(token, len(SYLLABLES))
    return SYLLABLES[first] + SYLLABLES[second]

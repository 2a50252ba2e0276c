# SPDX-License-Identifier: Apache-2.0
"""Runs where torch is: completes prompts one at a time, in batches, or from the keys and values of earlier prompts."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import DynamicCache
from transformers.models.llama import LlamaForCausalLM

# Tokens in a block of keys and values; only whole blocks are matched.
BLOCK = 16
# So many of the most probable tokens stand beside each token of an answer.
LISTED = 3
KeysAndValues = list[tuple[torch.Tensor, torch.Tensor]]


@dataclass(frozen=True)
class Completion:
    """Token ids, the log-probability of each in nat, and the most probable tokens at each place."""

    tokens: list[int]
    logprobs: list[float]
    top: list[dict[int, float]]
    ended: bool


@dataclass
class Engine:
    """A model, whether it reuses the keys and values of earlier prompts, and what it counted."""

    model: LlamaForCausalLM
    reuses: bool = False
    counters: Counter[str] = field(default_factory=Counter)
    _kept: dict[tuple[int, ...], KeysAndValues] = field(default_factory=dict)

    @torch.inference_mode()
    def complete(self, prompts: Sequence[list[int]], most: Sequence[int]) -> list[Completion]:
        """Complete prompts as one batch, each up to `most` tokens; greedy, so the rest is cut off.

        Prompts are padded on the left. A batch of several prompts reuses nothing.
        """
        width = max(map(len, prompts))
        padded = [[0] * (width - len(prompt)) + prompt for prompt in prompts]
        mask = [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts]
        options: dict[str, Any] = {}
        if self.reuses and len(prompts) == 1:
            options["past_key_values"] = self._found(prompts[0])
        made = self.model.generate(
            torch.tensor(padded),
            attention_mask=torch.tensor(mask),
            max_new_tokens=max(most),
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
            **options,
        )
        if "past_key_values" in options:
            self._keep(prompts[0], made.past_key_values)
        self.counters["requests"] += len(prompts)
        self.counters["batches"] += 1
        numbers = torch.log_softmax(torch.stack(made.logits, dim=1).float(), dim=-1)
        ends = set(self.model.config.eos_token_id)
        return [
            _cut(made.sequences[row, width:], numbers[row], limit, ends)
            for row, limit in enumerate(most)
        ]

    def _found(self, prompt: list[int]) -> DynamicCache:
        """The keys and values of the longest known prefix; the last token is always computed."""
        cache = DynamicCache(config=self.model.config)
        for end in range((len(prompt) - 1) // BLOCK * BLOCK, 0, -BLOCK):
            layers = self._kept.get(tuple(prompt[:end]))
            if layers is not None:
                self.counters["kv_reuse_hit_tokens"] += end
                for number, (keys, values) in enumerate(layers):
                    cache.update(keys[:, :, :end], values[:, :, :end], number)
                return cache
        return cache

    def _keep(self, prompt: list[int], cache: DynamicCache) -> None:
        length = len(prompt)
        layers = [
            (layer.keys[:, :, :length].clone(), layer.values[:, :, :length].clone())
            for layer in cache.layers
        ]
        for end in range(BLOCK, length + 1, BLOCK):
            self._kept.setdefault(tuple(prompt[:end]), layers)


def _cut(row: torch.Tensor, numbers: torch.Tensor, limit: int, ends: set[int]) -> Completion:
    """One row of a batch, up to its own end or limit."""
    tokens: list[int] = []
    for token in row.tolist()[:limit]:
        tokens.append(token)
        if token in ends:
            break
    own = numbers[range(len(tokens)), tokens]
    best = numbers[: len(tokens)].topk(LISTED)
    top = [
        dict(zip(ids, values, strict=True))
        for ids, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]
    return Completion(tokens, own.tolist(), top, ended=tokens[-1] in ends)

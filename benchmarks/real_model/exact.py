# SPDX-License-Identifier: Apache-2.0
"""Runs where torch is: the log-probabilities of given answers, by the sound model in float64.

    python exact.py --model DIR --requests FILE < answers.json

The input holds lists of token ids by the id of their request; so does the output, with an object for each list: `logprobs`
of these tokens, and in `best` those of the most probable tokens at the same places, all in nat. Each is computed in one
pass, without batches, caches and threads.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch
from model import load, tokens_of
from server import conversation
from transformers.models.llama.modeling_llama import LlamaRMSNorm


def in_float64(norm: LlamaRMSNorm, states: torch.Tensor) -> torch.Tensor:
    """The norm of transformers rounds to float32 within."""
    mean = states.pow(2).mean(-1, keepdim=True)
    return norm.weight * states * torch.rsqrt(mean + norm.variance_epsilon)


def prompt_of(body: dict[str, Any]) -> list[int]:
    messages = body.get("messages")
    return tokens_of(conversation(messages) if messages else body["prompt"])


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--requests", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    LlamaRMSNorm.forward = in_float64
    model = load(arguments.model, "float64", "none")
    lines = map(json.loads, arguments.requests.read_text().splitlines())
    prompts = {line["id"]: prompt_of(line["body"]) for line in lines}
    exact: dict[str, list[dict[str, list[float]]]] = {}
    for request, answers in json.load(sys.stdin).items():
        prompt = prompts[request]
        exact[request] = []
        for tokens in answers:
            logits = model(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1 : -1]
            numbers = torch.log_softmax(logits, dim=-1)
            own = numbers[range(len(tokens)), tokens].tolist()
            exact[request].append({"logprobs": own, "best": numbers.max(dim=-1).values.tolist()})
    json.dump(exact, sys.stdout)


if __name__ == "__main__":
    main()

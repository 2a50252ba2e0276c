# SPDX-License-Identifier: Apache-2.0
"""Runs where torch and transformers are: what the same weights say of given answers, in float64, one prompt at a time.

    python exact.py --model DIR [--adapter NAME=DIR]... < questions.json

The input is a list of objects: `body` is the request, `answer` has token ids, and `stopped` says that the last one is not in
the text. Of the body count the model's name, the prompt or messages, `allowed_token_ids` and `presence_penalty`. The output has
an object for each: `own`, the log-probabilities of the answer's tokens, `below`, by how much the best allowed token is more
probable after the penalty, in nat, and `text`, the answer's words. Each is one pass over prompt and answer, without a cache.
transformers computes norms and rotations in float32, so the numbers hold to about 1e-6.
"""

import argparse
import functools
import json
import sys
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from safetensors.torch import load_file


def with_adapter(model: torch.nn.Module, folder: Path) -> torch.nn.Module:
    """The model with the adapter's product added to its weights."""
    config = json.loads((folder / "adapter_config.json").read_text())
    weights = load_file(folder / "adapter_model.safetensors")
    scale = config["lora_alpha"] / config["r"]
    for name, left in weights.items():
        if not name.endswith("lora_A.weight"):
            continue
        place = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
        right = weights[name.replace("lora_A", "lora_B")]
        model.get_submodule(place).weight.data += scale * (right.double() @ left.double())
    return model


def prompt_of(tokenizer: hf.PreTrainedTokenizerBase, body: dict[str, Any]) -> list[int]:
    """The tokens that the server reads."""
    if "messages" in body:
        text = tokenizer.apply_chat_template(
            body["messages"], tokenize=False, add_generation_prompt=True
        )
        return list(tokenizer(text, add_special_tokens=False).input_ids)
    return list(tokenizer(body["prompt"]).input_ids)


def penalised(numbers: torch.Tensor, answer: list[int], penalty: float) -> torch.Tensor:
    """Each place without `penalty` nat for the tokens that were answered before it."""
    ranked = numbers.clone()
    for place in range(1, len(answer)):
        ranked[place, list(set(answer[:place]))] -= penalty
    return ranked


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--adapter", action="append", default=[], help="NAME=DIR")
    arguments = parser.parse_args()
    folders = {
        name: Path(folder) for name, folder in (each.split("=", 1) for each in arguments.adapter)
    }

    tokenizer = hf.AutoTokenizer.from_pretrained(arguments.model)
    in_words = functools.partial(tokenizer.decode, skip_special_tokens=True)

    @functools.cache
    def model_of(name: str) -> torch.nn.Module:
        # The faster ways to compute experts know no float64.
        options = {"dtype": torch.float64, "experts_implementation": "eager"}
        plain = hf.AutoModelForCausalLM.from_pretrained(arguments.model, **options).eval()
        return with_adapter(plain, folders[name]) if name in folders else plain

    readings = []
    for each in json.load(sys.stdin):
        body, answer = each["body"], each["answer"]
        prompt = prompt_of(tokenizer, body)
        logits = model_of(body["model"])(torch.tensor([prompt + answer])).logits[
            0, len(prompt) - 1 : -1
        ]
        numbers = torch.log_softmax(logits.double(), dim=-1)
        places = range(len(answer))
        ranked = penalised(numbers, answer, body.get("presence_penalty", 0))
        allowed = body.get("allowed_token_ids") or slice(None)
        below = ranked[:, allowed].max(dim=-1).values - ranked[places, answer]
        said = prompt + (answer[:-1] if each.get("stopped") else answer)
        text = in_words(said).removeprefix(in_words(prompt))
        own = numbers[places, answer].tolist()
        readings.append({"own": own, "below": below.tolist(), "text": text})
    json.dump(readings, sys.stdout)


if __name__ == "__main__":
    main()

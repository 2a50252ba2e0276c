# SPDX-License-Identifier: Apache-2.0
"""Runs where torch and transformers are: what the same weights say of given answers, in float64, one prompt at a time.

    python exact.py --model DIR [--adapter NAME=DIR]... < questions.json

The input is a list of objects: `prompt` and `answer` are token ids, `model` is the name that was asked. The output has an
object for each: `own`, the log-probabilities of the answer's tokens, and `best`, those of the most probable tokens at the
same places, in nat. Each is one pass over prompt and answer, without a cache. transformers computes norms and rotations in
float32, so the numbers hold to about 1e-6.
"""

import argparse
import functools
import json
import sys
from pathlib import Path

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


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--adapter", action="append", default=[], help="NAME=DIR")
    arguments = parser.parse_args()
    folders = {
        name: Path(folder) for name, folder in (each.split("=", 1) for each in arguments.adapter)
    }

    @functools.cache
    def model_of(name: str) -> torch.nn.Module:
        plain = hf.AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float64).eval()
        return with_adapter(plain, folders[name]) if name in folders else plain

    readings = []
    for each in json.load(sys.stdin):
        prompt, answer = each["prompt"], each["answer"]
        logits = model_of(each["model"])(torch.tensor([prompt + answer])).logits[
            0, len(prompt) - 1 : -1
        ]
        numbers = torch.log_softmax(logits.double(), dim=-1)
        own = numbers[range(len(answer)), answer].tolist()
        readings.append({"own": own, "best": numbers.max(dim=-1).values.tolist()})
    json.dump(readings, sys.stdout)


if __name__ == "__main__":
    main()

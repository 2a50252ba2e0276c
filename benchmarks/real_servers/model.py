# SPDX-License-Identifier: Apache-2.0
"""Runs where torch and transformers are: makes a model with random weights, and a tokenizer trained on Python's own help.

    python model.py KIND FOLDER

Kinds: `llama` (two layers), `moe` (two of four experts for each token), `window` (layers of a sliding window and of full
attention by turns), and `lora-a`, `lora-b` (adapters of the llama). Nothing is fetched.

The weights are drawn four times wider than usual. With the usual 0.02 a model of random weights answers in cycles, and one
changed token of its context changes few answers; `python model.py sensitivity FOLDER` measures that.
"""

import json
import random
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from pydoc_data.topics import topics

import torch
import transformers as hf
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

SEED = 20_261_129
VOCABULARY = 2048
CONTEXT = 1024
SPREAD = 0.08
_END = 1
_CHAT = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
_SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": CONTEXT, "initializer_range": SPREAD, "head_dim": 64,
    "tie_word_embeddings": False, "bos_token_id": None, "eos_token_id": _END, "pad_token_id": 0,
}  # fmt: skip


def text() -> str:
    """English of Python's own help, and words of other scripts: their letters take two to four bytes."""
    drawn = random.Random(SEED)
    ranges = (
        (0x3B1, 0x3C9),
        (0x430, 0x44F),
        (0x5D0, 0x5EA),
        (0x3042, 0x3093),
        (0x4E00, 0x4E60),
        (0x1F600, 0x1F640),
    )
    letters = [
        [chr(each) for each in range(*ends) if unicodedata.name(chr(each), "")] for ends in ranges
    ]
    words = [
        "".join(drawn.choices(drawn.choice(letters), k=drawn.randint(2, 6))) for _ in range(4000)
    ]
    return "\n".join([*topics.values(), " ".join(words)])


def tokenizer() -> hf.PreTrainedTokenizerFast:
    """Byte pairs that start from whole characters: every answer is valid UTF-8."""
    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    special = ["<|pad|>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>", "<unk>"]
    made.train_from_iterator(
        [text()],
        trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special, show_progress=False),
    )
    wrapped = hf.PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<|end|>", pad_token="<|pad|>", unk_token="<unk>"
    )
    wrapped.chat_template = _CHAT
    return wrapped


def llama() -> torch.nn.Module:
    return hf.LlamaForCausalLM(hf.LlamaConfig(num_hidden_layers=2, **_SIZES))


def moe() -> torch.nn.Module:
    return hf.MixtralForCausalLM(
        hf.MixtralConfig(num_hidden_layers=2, num_local_experts=4, num_experts_per_tok=2, **_SIZES)
    )


def window() -> torch.nn.Module:
    kinds = ["sliding_attention", "full_attention"] * 2
    return hf.Gemma3ForCausalLM(
        hf.Gemma3TextConfig(num_hidden_layers=4, sliding_window=64, layer_types=kinds, **_SIZES)
    )


KINDS: dict[str, Callable[[], torch.nn.Module]] = {"llama": llama, "moe": moe, "window": window}


def adapter(folder: Path, number: int) -> None:
    """A LoRA of rank 8 for the queries and values of the llama, wide enough to change every answer."""
    torch.manual_seed(SEED + number)
    rank, hidden = 8, _SIZES["hidden_size"]
    weights = {}
    for layer in range(2):
        for name, out in (("q_proj", 256), ("v_proj", 128)):
            place = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            weights[f"{place}.lora_A.weight"] = torch.randn(rank, hidden) * SPREAD
            weights[f"{place}.lora_B.weight"] = torch.randn(out, rank) * SPREAD
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": 4 * rank, "bias": "none",
        "target_modules": ["q_proj", "v_proj"], "base_model_name_or_path": "llama",
    }  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps(config))


@torch.inference_mode()
def sensitivity(folder: Path, prompts: int = 24, length: int = 320, answer: int = 32) -> None:
    """Print how many of `prompts` with one beginning of `length` tokens answer otherwise if it changes."""
    drawn = random.Random(SEED)

    def tokens(number: int) -> list[int]:
        return [drawn.randrange(6, VOCABULARY) for _ in range(number)]

    model = hf.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    words = hf.AutoTokenizer.from_pretrained(folder)
    shared, own, block = tokens(length), [tokens(24) for _ in range(prompts)], tokens(16)
    middle = length // 2

    def answers(beginning: list[int]) -> list[list[int]]:
        given = torch.tensor([beginning + each for each in own])
        made = model.generate(
            given,
            attention_mask=torch.ones_like(given),
            max_new_tokens=answer,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
        return [each[given.shape[1] :] for each in made.tolist()]

    plain = answers(shared)
    for name, changed in (
        ("one token", [*shared[:middle], *block[:1], *shared[middle + 1 :]]),
        ("one block of 16 tokens", [*shared[:middle], *block, *shared[middle + 16 :]]),
    ):
        others = sum(one != other for one, other in zip(plain, answers(changed), strict=True))
        print(f"{name} of the shared beginning changes {others} of {prompts} answers")
    distinct = sum(len(set(each)) for each in plain) / (prompts * answer)
    valid = sum("\ufffd" not in words.decode(each) for each in plain)
    print(f"{distinct:.0%} of an answer's tokens are different ones")
    print(f"{valid} of {prompts} answers are valid UTF-8")


def main() -> None:
    kind, folder = sys.argv[1], Path(sys.argv[2])
    if kind == "sensitivity":
        sensitivity(folder)
    elif kind.startswith("lora-"):
        adapter(folder, ord(kind[-1]))
    else:
        torch.manual_seed(SEED)
        KINDS[kind]().to(torch.bfloat16).save_pretrained(folder)
        tokenizer().save_pretrained(folder)


if __name__ == "__main__":
    main()

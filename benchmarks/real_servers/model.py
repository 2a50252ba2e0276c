# SPDX-License-Identifier: Apache-2.0
"""Runs where transformers is: makes a model with random weights and a real tokenizer trained on a text.

    python model.py KIND FOLDER TEXT

Nothing is fetched. Kinds: `llama` (two layers), `moe` (a mixture of four experts), `hybrid` (window and full attention).
The spread of the weights is chosen so that answers do not fall into cycles: see `sensitivity.py`.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

SEED = 20_261_129
VOCABULARY = 2048
CONTEXT = 1024
_CHAT = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def tokenizer_of(text: Path) -> PreTrainedTokenizerFast:
    """Byte pairs over whole characters alone: every answer is valid UTF-8."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<|pad|>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>", "<unk>"]
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special, show_progress=False)
    tokenizer.train([str(text)], trainer)
    tokenizer.model.unk_token = "<unk>"
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|pad|>", unk_token="<unk>"
    )
    made.chat_template = _CHAT
    return made


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY, hidden_size=256, intermediate_size=512, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=CONTEXT,
            initializer_range=0.08, tie_word_embeddings=False, bos_token_id=None, eos_token_id=1, pad_token_id=0,
        )
    )  # fmt: skip


KINDS: dict[str, Callable[[], torch.nn.Module]] = {"llama": llama}


def main() -> None:
    kind, folder, text = sys.argv[1:]
    torch.manual_seed(SEED)
    KINDS[kind]().to(torch.bfloat16).save_pretrained(folder)
    tokenizer_of(Path(text)).save_pretrained(folder)


if __name__ == "__main__":
    main()

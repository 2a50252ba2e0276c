# SPDX-License-Identifier: Apache-2.0
"""Runs where vLLM is: makes a Llama of two layers with random weights, and a tokenizer trained on Python's own help.

    python model.py FOLDER

Nothing is fetched. The weights are drawn four times wider than usual: then one changed token of the context changes most
answers. With the usual 0.02 the answers are cycles, and a stale block of the cache would change few of them.
"""

import sys
from pydoc_data.topics import topics

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

folder = sys.argv[1]
torch.manual_seed(20_261_129)
LlamaForCausalLM(
    LlamaConfig(
        vocab_size=2048, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=64, max_position_embeddings=1024, initializer_range=0.08,
        tie_word_embeddings=False, bos_token_id=None, eos_token_id=1, pad_token_id=0,
    )
).save_pretrained(folder)  # fmt: skip

# Byte pairs that start from whole characters: every answer is valid UTF-8.
pairs = Tokenizer(models.BPE(unk_token="<unk>"))
pairs.pre_tokenizer = pre_tokenizers.Metaspace()
pairs.decoder = decoders.Metaspace()
special = ["<|pad|>", "<|end|>", "<unk>"]
trainer = trainers.BpeTrainer(vocab_size=2048, special_tokens=special, show_progress=False)
pairs.train_from_iterator(topics.values(), trainer)
PreTrainedTokenizerFast(
    tokenizer_object=pairs, eos_token="<|end|>", pad_token="<|pad|>", unk_token="<unk>"
).save_pretrained(folder)

# SPDX-License-Identifier: Apache-2.0
"""Runs where gguf and numpy are: makes a Llama of two layers with random weights for llama.cpp, and a vocabulary.

    python gguf_model.py FILE

Pieces are letters, and the beginnings of words that Python's own help has most often. llama.cpp also needs each byte as a
piece, for letters that are none; their logits are 0, so that none is answered, and every answer is valid UTF-8. The weights
are as wide as those of model.py, for its reason.
"""

import sys
from collections import Counter
from pydoc_data.topics import topics

import gguf
import numpy as np

SPREAD = 0.08
HIDDEN, INNER, LAYERS, HEADS, KEYS, HEAD = 256, 512, 2, 4, 2, 64
CONTEXT = 1024
VOCABULARY = 2048
BYTES = 256


def pieces() -> list[str]:
    """The vocabulary; the longest of a word's beginnings come last, and score best."""
    words = " ".join(topics.values()).split()
    letters = sorted({letter for word in words for letter in word if letter.isascii()})
    counts: Counter[str] = Counter()
    for word in words:
        marked = f"▁{word}"
        counts.update(marked[:end] for end in range(2, len(marked) + 1) if marked.isprintable())
    every = [f"<0x{byte:02X}>" for byte in range(BYTES)]
    frequent = [piece for piece, _ in counts.most_common(VOCABULARY - 4 - BYTES - len(letters))]
    return ["<unk>", "<s>", "</s>", *every, "▁", *letters, *sorted(frequent, key=len)]


def main() -> None:
    vocabulary = pieces()
    drawn = np.random.default_rng(20_261_129)

    def weights(*shape: int) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
        return drawn.normal(0, SPREAD, shape).astype(np.float32)

    writer = gguf.GGUFWriter(sys.argv[1], "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEYS)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_rope_dimension_count(HEAD)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(len(vocabulary))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(vocabulary)
    writer.add_token_scores([float(len(piece)) for piece in vocabulary])
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    kinds += [gguf.TokenType.BYTE] * BYTES
    writer.add_token_types([*kinds, *[gguf.TokenType.NORMAL] * (len(vocabulary) - len(kinds))])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_tensor("token_embd.weight", weights(len(vocabulary), HIDDEN))
    writer.add_tensor("output_norm.weight", np.ones(HIDDEN, np.float32))
    output = weights(len(vocabulary), HIDDEN)
    output[3 : 3 + BYTES] = 0
    writer.add_tensor("output.weight", output)
    for layer in range(LAYERS):
        for name, *shape in (
            ("attn_q", HEADS * HEAD, HIDDEN),
            ("attn_k", KEYS * HEAD, HIDDEN),
            ("attn_v", KEYS * HEAD, HIDDEN),
            ("attn_output", HIDDEN, HEADS * HEAD),
            ("ffn_gate", INNER, HIDDEN),
            ("ffn_up", INNER, HIDDEN),
            ("ffn_down", HIDDEN, INNER),
        ):
            writer.add_tensor(f"blk.{layer}.{name}.weight", weights(*shape))
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(HIDDEN, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()

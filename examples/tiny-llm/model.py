# SPDX-License-Identifier: Apache-2.0
"""A decoder-only transformer in which the order of every sum is stated.

*Row-invariant.* A row of a matrix product depends on that row alone, never on how many
rows share the batch. BLAS does not promise that, so nothing here calls it: each sum is
a loop of elementwise multiply-adds, which IEEE 754 fixes to the last bit on any machine.

*Plan-dependent.* A linear layer sums over K, its input width. A *plan* cuts K into
blocks, sums each block in float32, then adds the blocks in the type of the activations:
split-K, as GPU libraries do when a batch has few rows. Float addition is not
associative, so another plan gives another last bit, and rounding to bfloat16 makes that
bit large enough to change places between two nearly tied tokens. In float32 it is not.
"""

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
Ints = NDArray[np.int64]

PLANS = {"split1": 1, "split4": 4, "split8": 8, "split16": 16}
BYTES = 256  # the tokenizer: one token for each byte of the prompt
OUTPUT_VOCAB = b"aeioubdfghklmnprstvw ,."
D_MODEL, D_MLP, N_LAYERS, N_HEADS, D_HEAD = 64, 256, 2, 4, 16
MAX_MODEL_LEN = 512
MAX_NUM_SEQS = 64
EXP_SQUARINGS = 20


def to_bfloat16(x: F32) -> F32:
    """Round to nearest even at bfloat16's 8 significant bits; still stored as float32."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    bits = bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    return (bits & np.uint32(0xFFFF0000)).view(np.float32)


def matmul(x: F32, weight: F32, splits: int, bfloat16: bool) -> F32:
    """Return x @ weight with K cut into `splits` blocks."""
    rows, k = x.shape
    x_blocks = x.reshape(rows, splits, k // splits)
    w_blocks = weight.reshape(splits, k // splits, -1)
    partial = np.zeros((rows, splits, w_blocks.shape[2]), np.float32)
    product = np.empty_like(partial)
    for i in range(k // splits):
        partial += np.multiply(x_blocks[:, :, i, None], w_blocks[:, i], out=product)
    total = np.zeros_like(partial[:, 0])
    for block in range(splits):
        total += partial[:, block]
        total = to_bfloat16(total) if bfloat16 else total
    return total


def autotune() -> str:
    """Time each plan on one real product and name the fastest, as autotuners do.

    The best plans are close, so the clock's noise decides: two starts may differ.
    """
    x = np.ones((MAX_NUM_SEQS, D_MLP), np.float32)
    weight = np.ones((D_MLP, D_MODEL), np.float32)

    def seconds(plan: str) -> float:
        matmul(x, weight, PLANS[plan], True)  # the first call also pays for its memory
        began = time.perf_counter()
        matmul(x, weight, PLANS[plan], True)
        return time.perf_counter() - began

    return min(PLANS, key=seconds)


def exp(x: NDArray[np.float64]) -> F32:
    """Return e**x for x <= 0 as (1 + x/n)**n.

    np.exp chooses its code, and with it the last bit, by CPU; products are the same
    on all of them.
    """
    y = np.maximum(1.0 + x / 2.0**EXP_SQUARINGS, 0.0)
    for _ in range(EXP_SQUARINGS):
        y *= y
    return y.astype(np.float32)


def rms_norm(x: F32) -> F32:
    """Scale each row to unit root mean square; the sum is a tree of fixed shape."""
    squares = x * x
    while (half := squares.shape[1] // 2) > 0:
        squares = squares[:, :half] + squares[:, half:]
    scale: F32 = np.sqrt(squares / np.float32(x.shape[1]) + np.float32(1e-6))
    return x / scale


def attention(q: F32, keys: F32, values: F32, positions: Ints) -> F32:
    """Causal attention of q[R, H, D] over keys[., H, D, T] and values[., T, H, D].

    T is the longest sequence in the batch. What lies beyond a row's own position gets
    weight 0.0 and comes last: it adds zeros to finished sums, so no bit changes.
    """
    length = keys.shape[3]
    scores = np.zeros((len(q), N_HEADS, length), np.float32)
    for d in range(D_HEAD):
        scores += q[:, :, d, None] * keys[:, :, d]
    future = np.arange(length) > positions[:, None]
    scores = np.where(future[:, None], np.float32(-np.inf), scores / np.float32(D_HEAD**0.5))
    weights = exp(scores.astype(np.float64) - scores.max(axis=2, keepdims=True))
    total, mixed = np.zeros((len(q), N_HEADS, 1), np.float32), np.zeros_like(q)
    for t in range(length):
        total += weights[:, :, t, None]
        mixed += weights[:, :, t, None] * values[:, t]
    return (mixed / total).reshape(len(q), D_MODEL)


@dataclass
class Layer:
    """The weights of one transformer block."""

    q_proj: F32
    k_proj: F32
    v_proj: F32
    o_proj: F32
    up_proj: F32
    down_proj: F32


class Model:
    """Seeded weights, and a KV cache with one slot for each running sequence."""

    def __init__(self, plan: str, bfloat16: bool = True, seed: int = 2) -> None:
        self.plan = plan
        self.bfloat16 = bfloat16
        self._rng = np.random.Generator(np.random.PCG64(seed))
        self.embed = self._weight(BYTES, D_MODEL, BYTES**0.5)
        # Strong positions keep greedy decoding out of endless loops.
        self.position = self._weight(MAX_MODEL_LEN, D_MODEL, MAX_MODEL_LEN**0.5)
        self.layers = [self._layer() for _ in range(N_LAYERS)]
        self.lm_head = self._weight(D_MODEL, len(OUTPUT_VOCAB))
        shape = (N_LAYERS, MAX_NUM_SEQS)
        self.keys = np.zeros((*shape, N_HEADS, D_HEAD, MAX_MODEL_LEN), np.float32)
        self.values = np.zeros((*shape, MAX_MODEL_LEN, N_HEADS, D_HEAD), np.float32)

    def _weight(self, fan_in: int, fan_out: int, gain: float = 1.0) -> F32:
        # Uniform, not normal: a normal draw may call libm, and libms differ.
        drawn = 2.0 * self._rng.random((fan_in, fan_out)) - 1.0
        return to_bfloat16((drawn * gain * (3.0 / fan_in) ** 0.5).astype(np.float32))

    def _layer(self) -> Layer:
        sharp = 3.0  # attention that looks at few tokens, as a trained model's does
        return Layer(
            q_proj=self._weight(D_MODEL, D_MODEL, sharp),
            k_proj=self._weight(D_MODEL, D_MODEL, sharp),
            v_proj=self._weight(D_MODEL, D_MODEL),
            o_proj=self._weight(D_MODEL, D_MODEL),
            up_proj=self._weight(D_MODEL, D_MLP),
            down_proj=self._weight(D_MLP, D_MODEL),
        )

    def _round(self, x: F32) -> F32:
        return to_bfloat16(x) if self.bfloat16 else x

    def _linear(self, x: F32, weight: F32) -> F32:
        return matmul(x, weight, PLANS[self.plan], self.bfloat16)

    def _attend(self, index: int, x: F32, positions: Ints, slots: Ints) -> F32:
        layer, keys, values = self.layers[index], self.keys[index], self.values[index]
        heads = (len(x), N_HEADS, D_HEAD)
        q = self._linear(x, layer.q_proj).reshape(heads)
        keys[slots, :, :, positions] = self._linear(x, layer.k_proj).reshape(heads)
        values[slots, positions] = self._linear(x, layer.v_proj).reshape(heads)
        length = int(positions.max()) + 1
        mixed = attention(q, keys[slots, :, :, :length], values[slots, :length], positions)
        return self._linear(self._round(mixed), layer.o_proj)

    def _mlp(self, layer: Layer, x: F32) -> F32:
        hidden = np.maximum(self._linear(x, layer.up_proj), np.float32(0.0))
        return self._linear(hidden, layer.down_proj)

    def forward(self, tokens: Ints, positions: Ints, slots: Ints) -> F32:
        """Return logits for each token; one slot for all rows, or one for each row."""
        x = self._round(self.embed[tokens] + self.position[positions])
        for index, layer in enumerate(self.layers):
            normed = self._round(rms_norm(x))
            x = self._round(x + self._attend(index, normed, positions, slots))
            x = self._round(x + self._mlp(layer, self._round(rms_norm(x))))
        return self._linear(self._round(rms_norm(x)), self.lm_head)

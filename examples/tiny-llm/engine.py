# SPDX-License-Identifier: Apache-2.0
"""Continuous batching: one thread advances all running sequences by a token a step.

HTTP threads put a `Sequence` in the waiting queue and sleep until it is done. Each step
admits what waits (prefill, one prompt at a time), then decodes one token for all that
run. Which sequences meet in a batch depends on timing; since the model is
row-invariant, no answer does.
"""

import math
import queue
import threading
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from model import F32, MAX_NUM_SEQS, OUTPUT_VOCAB, Model

BLOCK = 16  # tokens in a KV block; only whole blocks are matched
MAX_PREFIXES = 2048


@dataclass(eq=False)
class Sequence:
    """A request on its way through the engine."""

    prompt: bytes
    max_tokens: int
    stop: tuple[str, ...] = ()
    slot: int = -1
    output: bytearray = field(default_factory=bytearray)
    logprobs: list[float] = field(default_factory=list)
    text: str = ""
    cached_tokens: int = 0
    finish_reason: str = ""
    done: threading.Event = field(default_factory=threading.Event)

    def append(self, logits: F32) -> None:
        """Take the most likely token; on a tie the first one, as argmax does."""
        token = int(logits.argmax())
        scaled = np.exp(logits.astype(np.float64) - float(logits[token]))
        self.logprobs.append(round(-math.log(math.fsum(scaled)), 6))
        self.output.append(OUTPUT_VOCAB[token])
        self.text = self.output.decode("ascii")
        found = [at for word in self.stop if (at := self.text.find(word)) >= 0]
        if found:
            self.text, self.finish_reason = self.text[: min(found)], "stop"
        elif len(self.output) == self.max_tokens:
            self.finish_reason = "length"


class PrefixCache:
    """Keys and values of earlier prompts, found by their block-aligned prefixes."""

    def __init__(self, stale: bool, block: int = BLOCK) -> None:
        self._stale = stale
        self._block = block
        self._entries: dict[bytes, tuple[F32, F32]] = {}

    def load(self, prompt: bytes, model: Model, slot: int) -> tuple[int, int]:
        """Fill the slot from the longest known prefix; return (hit, filled)."""
        # The last token is always computed: its logits choose the first new one.
        block = self._block
        for hit in range((len(prompt) - 1) // block * block, 0, -block):
            if entry := self._entries.get(prompt[:hit]):
                keys, values = entry
                # The bug of `stale`: it also takes the first block that did NOT match,
                # so up to 16 positions hold another prompt's keys and values.
                end = hit + block if self._stale else hit
                end = min(end, values.shape[1], len(prompt) - 1)
                model.keys[:, slot, :, :, :end] = keys[..., :end]
                model.values[:, slot, :end] = values[:, :end]
                return hit, end
        return 0, 0

    def store(self, prompt: bytes, model: Model, slot: int) -> None:
        """Remember this prompt under each of its prefixes that is not known yet."""
        length = len(prompt)
        keys = model.keys[:, slot, :, :, :length].copy()
        values = model.values[:, slot, :length].copy()
        for end in range(self._block, length + 1, self._block):
            self._entries.setdefault(prompt[:end], (keys, values))
        while len(self._entries) > MAX_PREFIXES:
            del self._entries[next(iter(self._entries))]


class Engine:
    """The scheduler: a waiting queue, the running batch, and counters."""

    def __init__(
        self, model: Model, kv_reuse: str = "off", cache: PrefixCache | None = None
    ) -> None:
        self.model = model
        self.kv_reuse = kv_reuse
        self.counters: Counter[str] = Counter()
        self.running: list[Sequence] = []
        self._cache = cache
        if cache is None and kv_reuse != "off":
            self._cache = PrefixCache(kv_reuse == "stale")
        self._waiting: queue.SimpleQueue[Sequence | None] = queue.SimpleQueue()
        self._free = list(range(MAX_NUM_SEQS))
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after the step in progress; unfinished sequences are dropped."""
        self._stopping = True
        self._waiting.put(None)
        self._thread.join()

    def alive(self) -> bool:
        """Whether the engine's thread runs."""
        return self._thread.is_alive()

    def generate(self, sequence: Sequence) -> None:
        """Return when the sequence is complete."""
        self._waiting.put(sequence)
        while not sequence.done.wait(timeout=1.0):
            if not self.alive():
                raise RuntimeError("the engine is not running")

    def _run(self) -> None:
        while not self._stopping:
            self._admit()
            if self.running:
                self._decode()

    def _admit(self) -> None:
        """Prefill what waits; sleep only if nothing runs."""
        while self._free and not (self.running and self._waiting.empty()):
            sequence = self._waiting.get()
            if sequence is None or self._stopping:
                return
            sequence.slot = self._free.pop()
            self._prefill(sequence)

    def _prefill(self, sequence: Sequence) -> None:
        prompt, slot, filled = sequence.prompt, sequence.slot, 0
        if self._cache:
            sequence.cached_tokens, filled = self._cache.load(prompt, self.model, slot)
        tokens = np.frombuffer(prompt[filled:], np.uint8).astype(np.int64)
        positions = np.arange(filled, len(prompt), dtype=np.int64)
        logits = self.model.forward(tokens, positions, np.array([slot]))
        if self._cache:
            self._cache.store(prompt, self.model, slot)
        self.counters["requests"] += 1
        self.counters["prompt_tokens"] += len(prompt)
        self.counters["kv_reuse_hit_tokens"] += sequence.cached_tokens
        self.running.append(sequence)
        self._advance([sequence], logits[-1:])

    def _decode(self) -> None:
        batch = list(self.running)
        tokens = np.array([s.output[-1] for s in batch])
        # The newest token stands right after the prompt and the tokens before it.
        positions = np.array([len(s.prompt) + len(s.output) - 1 for s in batch])
        slots = np.array([s.slot for s in batch])
        self._advance(batch, self.model.forward(tokens, positions, slots))

    def _advance(self, batch: list[Sequence], logits: F32) -> None:
        for sequence, row in zip(batch, logits, strict=True):
            sequence.append(row)
            self.counters["generation_tokens"] += 1
            if sequence.finish_reason:
                self.running.remove(sequence)
                self._free.append(sequence.slot)
                sequence.done.set()

# SPDX-License-Identifier: Apache-2.0
"""Where a server looks for keys and values: its own blocks first, then its connector's.

As in vLLM, the scheduler asks its own prefix cache, and then the connector for what follows
(vllm/v1/core/sched/scheduler.py, `get_num_new_matched_tokens`). The counters are those that vLLM
0.33.0 exports (vllm/v1/metrics/loggers.py).
"""

import threading
from collections import Counter

from engine import BLOCK, PrefixCache
from model import F32, Model

_KEPT = 256
_COUNTERS = (
    "prefix_cache_queries",
    "prefix_cache_hits",
    "external_prefix_cache_queries",
    "external_prefix_cache_hits",
)


class Tiers(PrefixCache):
    """The server's own prefix cache and a connector behind it; either may be missing."""

    def __init__(self, own: PrefixCache | None, connector: PrefixCache | None) -> None:
        super().__init__(stale=False)
        self._own = own
        self.connector = connector
        # vLLM exports a counter from the start.
        self.tokens: Counter[str] = Counter(dict.fromkeys(_COUNTERS, 0))

    def forget_own(self) -> None:
        """Empty the server's own cache, and leave the connector's as it is."""
        if self._own is not None:
            self._own = PrefixCache(stale=False)

    def load(self, prompt: bytes, model: Model, slot: int) -> tuple[int, int]:
        """Fill the slot from the tier that has more; return (hit, filled)."""
        hit = filled = 0
        if self._own is not None:
            hit, filled = self._own.load(prompt, model, slot)
            self.tokens["prefix_cache_queries"] += len(prompt)
            self.tokens["prefix_cache_hits"] += hit
        if self.connector is None:
            return hit, filled
        self.tokens["external_prefix_cache_queries"] += len(prompt) - hit
        outside, outside_filled = self.connector.load(prompt, model, slot)
        if outside <= hit:
            return hit, filled
        self.tokens["external_prefix_cache_hits"] += outside - hit
        return outside, outside_filled

    def store(self, prompt: bytes, model: Model, slot: int) -> None:
        """Hand the slot to both tiers."""
        for tier in (self._own, self.connector):
            if tier is not None:
                tier.store(prompt, model, slot)


class Exports(PrefixCache):
    """The prompts of a prefill server, until a decode server fetches them."""

    def __init__(self) -> None:
        super().__init__(stale=False)
        self._kept: dict[bytes, tuple[F32, F32]] = {}

    def load(self, prompt: bytes, model: Model, slot: int) -> tuple[int, int]:  # noqa: ARG002
        """Nothing: a prefill server computes."""
        return 0, 0

    def store(self, prompt: bytes, model: Model, slot: int) -> None:
        """Keep all of the prompt, not only whole blocks."""
        length = len(prompt)
        keys = model.keys[:, slot, :, :, :length].copy()
        self._kept[prompt] = (keys, model.values[:, slot, :length].copy())

        while len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]

    def find(self, prompt: bytes) -> tuple[F32, F32]:
        """The keys and values of a prompt. Raises KeyError."""
        return self._kept[prompt]


class Imports(PrefixCache):
    """What a decode server has fetched for the requests that wait."""

    def __init__(self) -> None:
        super().__init__(stale=False)
        self._lock = threading.Lock()
        self._fetched: dict[bytes, tuple[F32, F32]] = {}

    def put(self, prompt: bytes, keys: F32, values: F32) -> None:
        """Called by the thread of a request, before the request is scheduled."""
        with self._lock:
            self._fetched[prompt] = (keys, values)

    def load(self, prompt: bytes, model: Model, slot: int) -> tuple[int, int]:
        """All but the last token: its logits choose the first new one."""
        with self._lock:
            fetched = self._fetched.pop(prompt, None)
        if fetched is None:
            return 0, 0
        keys, values = fetched
        end = len(prompt) - 1
        model.keys[:, slot, :, :, :end] = keys[..., :end]
        model.values[:, slot, :end] = values[:, :end]
        return end, end

    def store(self, prompt: bytes, model: Model, slot: int) -> None:
        """Nothing: what was fetched is used once."""


class OffByOne(PrefixCache):
    """A planted bug: each position gets the keys and values of the next one."""

    def load(self, prompt: bytes, model: Model, slot: int) -> tuple[int, int]:
        """As without the bug, and then moved by one."""
        hit, filled = super().load(prompt, model, slot)
        if filled:
            model.keys[:, slot, :, :, : filled - 1] = model.keys[:, slot, :, :, 1:filled].copy()
            model.values[:, slot, : filled - 1] = model.values[:, slot, 1:filled].copy()
        return hit, filled


def lmcache_of(chunk_size: int, fault: str) -> PrefixCache:
    """The cache of an engine with LMCache inside: whole chunks of `chunk_size` tokens."""
    if fault == "off-by-one":
        return OffByOne(stale=False, block=chunk_size)
    return PrefixCache(stale=False, block=chunk_size)


def own_blocks() -> PrefixCache:
    """A server's own prefix cache, of whole blocks."""
    return PrefixCache(stale=False, block=BLOCK)

# SPDX-License-Identifier: Apache-2.0
"""Keys and values in another process, `lmcache server`: by prefix, and by chunk wherever it stands.

Blending is approximate here as in CacheBlend: a chunk brings the keys and values that it had behind
another text and at another place, and only the tokens outside of known chunks are computed.
"""

import hashlib

import numpy as np
from cache_tiers import Tiers
from engine import Engine, PrefixCache, Sequence
from kv_wire import call, pack, unpack
from model import F32, Model

CHUNK = 16


def digest(kind: str, text: bytes) -> str:
    """The name of an entry: `prefix` for all tokens up to its end, `chunk` for its own alone."""
    return f"/{kind}/{hashlib.sha256(text).hexdigest()}"


def _ends(prompt: bytes) -> range:
    """Where whole chunks end; the last token is always computed."""
    return range(CHUNK, len(prompt), CHUNK)


class Remote(PrefixCache):
    """The entries of `lmcache server`, matched by prefix."""

    def __init__(self, port: int) -> None:
        super().__init__(stale=False)
        self._port = port

    def load(self, prompt: bytes, model: Model, slot: int) -> tuple[int, int]:
        """Fill the slot up to the first chunk whose prefix is not known."""
        hit = 0
        for end in _ends(prompt):
            if not self._fill(digest("prefix", prompt[:end]), model, slot, end):
                break
            hit = end
        return hit, hit

    def store(self, prompt: bytes, model: Model, slot: int) -> None:
        """Send every whole chunk, under both of its names."""
        for end in _ends(prompt):
            content = pack(
                model.keys[:, slot, :, :, end - CHUNK : end],
                model.values[:, slot, end - CHUNK : end],
            )
            for name in (
                digest("prefix", prompt[:end]),
                digest("chunk", prompt[end - CHUNK : end]),
            ):
                call("127.0.0.1", self._port, name, content)

    def _fill(self, name: str, model: Model, slot: int, end: int) -> bool:
        content = call("127.0.0.1", self._port, name)
        if not content:
            return False
        keys, values = unpack(content)
        model.keys[:, slot, :, :, end - CHUNK : end] = keys
        model.values[:, slot, end - CHUNK : end] = values
        return True


class Blended(Remote):
    """The same, and chunks behind a text that is not known."""

    def known(self, prompt: bytes, model: Model, slot: int, start: int) -> list[int]:
        """Fill what is known from `start` on; return the positions that are left to compute."""
        left = list(range(start, len(prompt)))
        for end in _ends(prompt):
            if end <= start:
                continue
            if self._fill(digest("chunk", prompt[end - CHUNK : end]), model, slot, end):
                filled = set(range(end - CHUNK, end))
                left = [position for position in left if position not in filled]
        return left


def connector(port: int, *, blends: bool) -> Remote:
    """The connector of a server whose `lmcache server` listens on `port`."""
    return Blended(port) if blends else Remote(port)


class BlendEngine(Engine):
    """An engine that computes a prompt with holes."""

    def _prefill(self, sequence: Sequence) -> None:
        cache, prompt, slot = self._cache, sequence.prompt, sequence.slot
        assert isinstance(cache, Tiers)
        assert isinstance(cache.connector, Blended)
        hit, start = cache.load(prompt, self.model, slot)
        left = cache.connector.known(prompt, self.model, slot, start)
        blended = len(prompt) - start - len(left)
        cache.tokens["external_prefix_cache_hits"] += blended
        sequence.cached_tokens = hit + blended
        positions = np.array(left, np.int64)
        tokens = np.frombuffer(prompt, np.uint8).astype(np.int64)[positions]
        logits: F32 = self.model.forward(tokens, positions, np.array([slot]))
        cache.store(prompt, self.model, slot)
        self.running.append(sequence)
        self._advance([sequence], logits[-1:])

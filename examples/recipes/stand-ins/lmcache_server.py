# SPDX-License-Identifier: Apache-2.0
"""Stands for `lmcache server` of LMCache 0.5.6, with the flags that the recipes use; an unknown one is an error.

It keeps what the servers send, and counts as LMCache does (`lmcache_blend.*` of
lmcache/v1/mp_observability/subscribers/metrics/cb_server.py).
"""

import argparse
import os
import signal
import sys
import threading
from collections import Counter

from blending import CHUNK
from kv_wire import as_json, metrics_text, serve_bytes

_COUNTERS = ("lookup_requested_tokens", "lookup_hit_tokens", "lookup_non_prefix_hit_tokens")


def parse_args(words: list[str]) -> argparse.Namespace:
    """As LMCache's parser. Ends with status 2 for what it does not know."""
    parser = argparse.ArgumentParser(prog="lmcache server", allow_abbrev=False)
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int, default=5555)
    parser.add_argument("--http-host", default="127.0.0.1")
    parser.add_argument("--http-port", type=int, default=8080)
    parser.add_argument("--prometheus-port", type=int, default=9090)
    parser.add_argument("--chunk-size", type=int, default=256)
    parser.add_argument("--l1-size-gb", type=float)
    parser.add_argument("--eviction-policy", choices=["LRU", "ARC", "IsolatedLRU", "noop"])
    parser.add_argument("--engine-type", default="default", choices=["default", "blend"])
    args = parser.parse_args(words)
    if args.l1_size_gb is None or args.eviction_policy is None:
        # lmcache/v1/distributed/config.py
        raise ValueError("Legacy L1 configuration requires --l1-size-gb and --eviction-policy")
    return args


def main() -> None:
    """Run `server`; the other commands of LMCache are not here."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    command, *words = sys.argv[1:] or [""]
    if command != "server":
        sys.exit(f"lmcache: error: argument command: invalid choice: '{command}'")
    args = parse_args(words)
    entries: dict[str, bytes] = {}
    counters = Counter(dict.fromkeys(_COUNTERS, 0))
    lock = threading.Lock()

    def entry(path: str, body: bytes) -> bytes:
        if body:
            # Chunks keep the keys and values that they had first.
            entries.setdefault(path, body)
            return b""
        found = entries.get(path, b"")
        hit = CHUNK if found else 0
        with lock:
            counters["lookup_requested_tokens"] += CHUNK
            counters["lookup_hit_tokens"] += hit
            if path.startswith("/chunk/"):
                counters["lookup_non_prefix_hit_tokens"] += hit
        return found

    def health(path: str, _: bytes) -> str | None:
        return as_json({"status": "healthy"}) if path == "/healthcheck" else None

    def metrics(*_: object) -> str:
        return metrics_text("lmcache_blend_", dict(counters), "")

    serve_bytes(args.port, entry)
    serve_bytes(args.prometheus_port, metrics)
    serve_bytes(args.http_port, health)
    print(f"LMCache server ready, engine_type={args.engine_type}", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()

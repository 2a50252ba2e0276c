# SPDX-License-Identifier: Apache-2.0
"""Stands for `python -m sglang.launch_server` of SGLang 0.5.23, with the flags that the recipe uses."""

import argparse
import os
import signal
import sys

from cache_tiers import Tiers, own_blocks
from engine import Engine
from kv_wire import metrics_text
from model import Model
from openai_server import ServedModel, listen

# sglang/srt/arg_groups/choices.py, RADIX_SUPPORTED_DETERMINISTIC_ATTENTION_BACKEND
_RADIX_SUPPORTED = {"ascend", "fa3", "fa4", "triton"}
_BACKENDS = sorted({*_RADIX_SUPPORTED, "flashinfer"})
# The kernels between which a server without deterministic inference chooses.
_PLANS = ("split1", "split8")


def parse_args(words: list[str]) -> argparse.Namespace:
    """As SGLang's parser. Ends with status 2 for what it does not know."""
    parser = argparse.ArgumentParser(prog="launch_server.py", allow_abbrev=False)
    parser.add_argument("--model-path", required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--random-seed", type=int)
    parser.add_argument("--mem-fraction-static", type=float)
    parser.add_argument("--attention-backend", choices=_BACKENDS)
    parser.add_argument("--enable-deterministic-inference", action="store_true")
    parser.add_argument("--disable-radix-cache", action="store_true")
    parser.add_argument("--enable-metrics", action="store_true")
    return parser.parse_args(words)


def plan_of(args: argparse.Namespace) -> str:
    """Deterministic inference has one; else it is another one from start to start."""
    if args.enable_deterministic_inference:
        return "split8"
    # A real server chooses by timing and batch size. Here it is pinned, so that a test ends the same.
    turn = sum(map(int, os.environ.get("STAND_IN_TURN", "0").split("+")))
    return _PLANS[turn % len(_PLANS)]


def has_radix_cache(args: argparse.Namespace) -> bool:
    """As sglang/srt/arg_groups/attention_hook.py: some backends switch the cache off, with a warning."""
    if args.disable_radix_cache:
        return False
    backend = args.attention_backend or "fa3"
    if not args.enable_deterministic_inference or backend in _RADIX_SUPPORTED:
        return True
    print(
        f"Currently radix cache is not compatible with {backend} attention backend for "
        "deterministic inference. It will be supported in the future.",
        flush=True,
    )
    return False


def main() -> None:
    """Serve until SIGTERM or Ctrl-C."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    args = parse_args(sys.argv[1:])
    tiers = Tiers(own_blocks() if has_radix_cache(args) else None, None)
    served = ServedModel(args.model_path, Engine(Model(plan_of(args)), cache=tiers), tiers)
    if args.enable_metrics:
        served.metrics = lambda: _metrics(args.model_path, tiers)
    served.paths["/flush_cache"] = lambda: _flush(tiers)
    with listen(args.port, served) as server:
        print("The server is fired up and ready to roll!", flush=True)
        server.serve_forever()


def _metrics(model: str, tiers: Tiers) -> str:
    """`sglang:cached_tokens_total` appears with its first count (sglang/srt/observability)."""
    hits = tiers.tokens["prefix_cache_hits"]
    if not hits:
        return ""
    labels = f'cache_source="device",model_name="{model}"'
    return metrics_text("sglang:", {"cached_tokens": hits}, labels)


def _flush(tiers: Tiers) -> str:
    tiers.forget_own()
    return "Cache flushed.\n"


if __name__ == "__main__":
    main()

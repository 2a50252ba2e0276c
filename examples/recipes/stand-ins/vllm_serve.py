# SPDX-License-Identifier: Apache-2.0
"""Stands for `vllm serve` of vLLM 0.33.0, with the flags that the recipes use; an unknown one is an error."""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import blending
import ranks
import side_channel
from cache_tiers import Exports, Imports, Tiers, lmcache_of, own_blocks
from engine import Engine, PrefixCache
from kv_wire import as_json, metrics_text
from model import Model, autotune
from openai_server import ServedModel, listen

# LMCache's own default (lmcache/v1/config.py, 0.5.6).
_DEFAULT_CHUNK = 256
# A model of 14 billion parameters takes a minute or more.
_SLOW_LOAD_S = 10.0


def parse_args(words: list[str]) -> argparse.Namespace:
    """As vLLM's parser, without abbreviations. Ends with status 2 for what it does not know."""
    parser = argparse.ArgumentParser(prog="vllm serve", allow_abbrev=False)
    parser.add_argument("model_tag")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--enforce-eager", action="store_true")
    parser.add_argument("--attention-backend")
    parser.add_argument("--gpu-memory-utilization", type=float)
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--enable-prefix-caching", action=argparse.BooleanOptionalAction)
    parser.add_argument("--kv-transfer-config", type=json.loads, default={})
    parser.add_argument("--tensor-parallel-size", type=int, default=1)
    parser.add_argument("--nnodes", type=int, default=1)
    parser.add_argument("--node-rank", type=int, default=0)
    parser.add_argument("--master-addr", default="127.0.0.1")
    parser.add_argument("--master-port", type=int, default=29501)
    parser.add_argument("--headless", action="store_true")
    parser.add_argument("--distributed-timeout-seconds", type=int, default=600)
    args = parser.parse_args(words)
    if not 0 <= args.node_rank < args.nnodes:
        # vllm/engine/arg_utils.py, `create_engine_config`.
        raise ValueError(
            "Invalid data-parallel launch options: `--node-rank` must be between 0 and "
            f"{args.nnodes - 1}; got `--node-rank {args.node_rank}`. Set it to this node's "
            "zero-based index."
        )
    return args


def chunk_size() -> int:
    """The `chunk_size` of the file that LMCACHE_CONFIG_FILE names."""
    file = os.environ.get("LMCACHE_CONFIG_FILE")
    if file is None:
        return _DEFAULT_CHUNK
    for line in Path(file).read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "chunk_size":
            return int(value.split("#")[0])
    return _DEFAULT_CHUNK


def connector_of(config: Mapping[str, Any]) -> PrefixCache | None:
    """What `--kv-transfer-config` asks for. Raises ValueError for a connector that is not known."""
    name = config.get("kv_connector")
    extra = config.get("kv_connector_extra_config", {})
    if name is None:
        return None
    if name == "LMCacheConnectorV1":
        return lmcache_of(chunk_size(), os.environ.get("STAND_IN_FAULT", ""))
    if name == "NixlConnector":
        return Exports() if config["kv_role"] == "kv_producer" else Imports()
    if name in {"LMCacheMPConnector", "CBKVConnector"}:
        return blending.connector(extra["lmcache.mp.port"], blends=name == "CBKVConnector")
    raise ValueError(f"Unsupported connector type: {name}")


def serve(args: argparse.Namespace) -> None:
    """Rank 0, or the only one: load, wait for the others, then serve HTTP."""
    batch_invariant = os.environ.get("VLLM_BATCH_INVARIANT") == "1"
    plan = "split8" if batch_invariant else autotune()
    print(f"Starting to load model {args.model_tag}...", flush=True)
    if os.environ.get("STAND_IN_FAULT") == "loads-slowly":
        time.sleep(_SLOW_LOAD_S)
    model = Model(plan)
    if args.nnodes > 1:
        limit_s = args.distributed_timeout_seconds
        peers = ranks.gather(args.master_addr, args.master_port, args.nnodes, limit_s)
        model = ranks.ShardedModel(plan, peers)
    connector = connector_of(args.kv_transfer_config)
    # As vLLM: on unless it is switched off.
    own = None if args.enable_prefix_caching is False else own_blocks()
    tiers = Tiers(own, connector)
    engine_class = blending.BlendEngine if isinstance(connector, blending.Blended) else Engine
    served = ServedModel(args.model_tag, engine_class(model, cache=tiers), tiers)
    labels = f'engine="0",model_name="{args.model_tag}"'
    served.metrics = lambda: metrics_text("vllm:", dict(tiers.tokens), labels)
    if os.environ.get("VLLM_SERVER_DEV_MODE") == "1":
        served.paths["/reset_prefix_cache"] = lambda: _reset(tiers)
    side_channel.attach(served, connector)
    with listen(args.port, served) as server:
        print("Application startup complete.", flush=True)
        server.serve_forever()


def _reset(tiers: Tiers) -> str:
    tiers.forget_own()
    return as_json({"success": True})


def main() -> None:
    """Run `serve MODEL`; the other commands of vLLM are not here."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    command, *words = sys.argv[1:] or [""]
    if command != "serve":
        sys.exit(f"vllm: error: argument subcommand: invalid choice: '{command}'")
    args = parse_args(words)
    ranks.end_with_the_engine()
    if not args.headless:
        serve(args)
        return
    print(
        "Launching vLLM (v0.33.0) headless multiproc executor, with head node address "
        f"{args.master_addr}:{args.master_port} for torch.distributed process group.",
        flush=True,
    )
    ranks.join_and_work(
        args.master_addr, args.master_port, args.node_rank, args.nnodes, plan="split8"
    )


if __name__ == "__main__":
    main()

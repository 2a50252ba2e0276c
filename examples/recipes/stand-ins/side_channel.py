# SPDX-License-Identifier: Apache-2.0
"""The transfer of a prompt's keys and values from a prefill to a decode server.

The parameters are those of vLLM's NixlConnector 0.33.0 (v1/nixl/base_scheduler.py): the prefill
server's answer carries `kv_transfer_params`, which a proxy hands to the decode server. It fetches
from `VLLM_NIXL_SIDE_CHANNEL_PORT` of the prefill server.
"""

import itertools
import os
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from cache_tiers import Exports, Imports
from engine import PrefixCache, Sequence
from kv_wire import call, pack, serve_bytes, unpack
from openai_server import ServedModel
from protocol import Json

# Between the requests of one fault and the next.
_answered = itertools.count(1)


def attach(served: ServedModel, connector: PrefixCache | None) -> None:
    """Make `served` a prefill or a decode server, if its connector is one's."""
    if isinstance(connector, Exports):
        _attach_exports(served, connector)
    elif isinstance(connector, Imports):
        _attach_imports(served, connector)


def _attach_exports(served: ServedModel, exports: Exports) -> None:
    host = os.environ.get("VLLM_NIXL_SIDE_CHANNEL_HOST", "localhost")
    port = int(os.environ.get("VLLM_NIXL_SIDE_CHANNEL_PORT", "5600"))
    prompts: dict[str, bytes] = {}
    lock = threading.Lock()

    def fetched(path: str, _: bytes) -> bytes | None:
        with lock:
            prompt = prompts.pop(path, None)
        return None if prompt is None else pack(*exports.find(prompt))

    def after(sequence: Sequence, transfer: Mapping[str, Any]) -> Json | None:
        if not transfer.get("do_remote_decode"):
            return None
        name = f"/{quote(str(id(sequence)))}"
        with lock:
            prompts[name] = sequence.prompt
        return {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_engine_id": f"{host}:{port}",
            "remote_request_id": name,
            "remote_block_ids": [],
            "remote_host": host,
            "remote_port": port,
            "tp_size": 1,
        }

    served.after = after
    # Listens as long as the process lives.
    serve_bytes(port, fetched)


def _attach_imports(served: ServedModel, imports: Imports) -> None:
    dies_at = os.environ.get("STAND_IN_FAULT", "").removeprefix("dies-at-request-")

    def before(sequence: Sequence, transfer: Mapping[str, Any]) -> None:
        if str(next(_answered)) == dies_at:
            # What a faulty kernel says, as torch words it.
            _die("torch.AcceleratorError: CUDA error: an illegal memory access was encountered")
        if transfer.get("do_remote_prefill"):
            host, port = transfer["remote_host"], transfer["remote_port"]
            content = call(host, port, transfer["remote_request_id"])
            imports.put(sequence.prompt, *unpack(content))

    served.before = before


def _die(message: str) -> None:
    print(f"EngineCore encountered a fatal error.\n{message}", flush=True)
    os._exit(1)

# SPDX-License-Identifier: Apache-2.0
"""The HTTP side that the stand-ins share: tiny-llm's, with another name of the model and other metrics."""

import json
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from cache_tiers import Tiers
from engine import Engine, Sequence
from protocol import MODEL_NAME, APIError, Json, answer, parse, require
from server import Handler, Server

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class ServedModel:
    """What is served under which name; `paths` are further POST paths with what they do."""

    def __init__(self, name: str, engine: Engine, tiers: Tiers) -> None:
        self.name = name
        self.engine = engine
        self.tiers = tiers
        self.metrics: Callable[[], str] = lambda: ""
        self.paths: dict[str, Callable[[], str]] = {}
        # The parameters of a KV transfer, before a request is scheduled and after it is answered.
        self.before: Callable[[Sequence, Mapping[str, Any]], None] = lambda *_: None
        self.after: Callable[[Sequence, Mapping[str, Any]], Json | None] = lambda *_: None


class OpenAIHandler(Handler):
    """tiny-llm's endpoints for a model with a name of its own."""

    served: ServedModel

    def do_GET(self) -> None:  # noqa: N802 - as http.server names it
        """Serve /metrics, and what tiny-llm serves."""
        if self.path == "/metrics":
            self._send(200, self.served.metrics())
        elif self.path == "/v1/models":
            self._send(200, {"object": "list", "data": [{"id": self.served.name}]})
        else:
            super().do_GET()

    def do_POST(self) -> None:  # noqa: N802
        """Serve completions and the further paths."""
        action = self.served.paths.get(self.path)
        if action is None:
            super().do_POST()
            return
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._send(200, action())

    def _complete(self, raw: bytes) -> Json:
        chat = self.path == "/v1/chat/completions"
        if not chat and self.path != "/v1/completions":
            raise APIError(404, f"no such path: {self.path}")
        body = json.loads(raw)
        require(isinstance(body, dict), "the body must be a JSON object")
        name = body.get("model", self.served.name)
        if name != self.served.name:
            raise APIError(404, f"The model `{name}` does not exist.")
        sequence = parse({**body, "model": MODEL_NAME}, chat)
        transfer = body.get("kv_transfer_params") or {}
        try:
            self.served.before(sequence, transfer)
        except (OSError, KeyError) as error:
            # vLLM's `kv_load_failure_policy` is "fail" by default (vllm/config/kv_transfer.py).
            raise APIError(500, f"the KV cache could not be loaded: {error}") from error
        self.served.engine.generate(sequence)
        content = answer(sequence, chat, body.get("logprobs") not in (None, False))
        given = self.served.after(sequence, transfer)
        return {**content, "model": self.served.name, "kv_transfer_params": given}


def listen(port: int, served: ServedModel) -> ThreadingHTTPServer:
    """A server for `served`, bound and not yet serving."""
    handler = type("BoundHandler", (OpenAIHandler,), {"served": served})
    server = Server(port, served.engine)
    server.RequestHandlerClass = handler
    return server

# SPDX-License-Identifier: Apache-2.0
"""tiny-llm: an OpenAI-compatible server for a tiny transformer, to be read and run.

    python server.py --port 8000 [--plan NAME] [--kv-reuse] [--dtype float32]

`model.py` says why two starts may answer differently, `engine.py` how requests share a
batch, `protocol.py` what a request and an answer look like. Here: HTTP and the flags.
"""

import argparse
import json
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from engine import Engine
from model import MAX_MODEL_LEN, PLANS, Model, autotune
from protocol import MODEL_NAME, APIError, Json, answer, parse


def metrics(engine: Engine) -> str:
    """Return the counters in Prometheus' text format."""
    lines = []
    for name in ("requests", "prompt_tokens", "generation_tokens", "kv_reuse_hit_tokens"):
        lines.append(f"# TYPE tiny_llm:{name}_total counter")
        lines.append(f"tiny_llm:{name}_total {engine.counters[name]}")
    dtype = "bfloat16" if engine.model.bfloat16 else "float32"
    labels = f'plan="{engine.model.plan}",kv_reuse="{engine.kv_reuse}",dtype="{dtype}"'
    lines += ["# TYPE tiny_llm:plan_info gauge", f"tiny_llm:plan_info{{{labels}}} 1", ""]
    return "\n".join(lines)


class Handler(BaseHTTPRequestHandler):
    """One connection; it may carry many requests."""

    server: "Server"
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # buffered: headers and body leave in one packet

    def do_GET(self) -> None:
        """Serve /health, /metrics and /v1/models."""
        engine = self.server.engine
        if self.path == "/health":
            self._send(200 if engine.alive() else 503, "")
        elif self.path == "/metrics":
            self._send(200, metrics(engine))
        elif self.path == "/v1/models":
            card = {"id": MODEL_NAME, "object": "model", "max_model_len": MAX_MODEL_LEN}
            self._send(200, {"object": "list", "data": [card]})
        else:
            self._refuse(404, f"no such path: {self.path}")

    def do_POST(self) -> None:
        """Serve the two completion endpoints."""
        try:
            # Read the body even for a 404, or it would pass for the next request.
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self._send(200, self._complete(raw))
        except APIError as error:
            self._refuse(error.status, str(error))
        except (ValueError, RecursionError) as error:
            self._refuse(400, f"the body is not JSON: {error}")
        except RuntimeError as error:
            self._refuse(500, str(error))

    def _complete(self, raw: bytes) -> Json:
        chat = self.path == "/v1/chat/completions"
        if not chat and self.path != "/v1/completions":
            raise APIError(404, f"no such path: {self.path}")
        body = json.loads(raw)
        sequence = parse(body, chat)
        self.server.engine.generate(sequence)
        return answer(sequence, chat, body.get("logprobs") not in (None, False))

    def _refuse(self, status: int, message: str) -> None:
        kinds = {400: "BadRequestError", 404: "NotFoundError", 500: "InternalServerError"}
        self._send(status, {"error": {"message": message, "type": kinds[status], "code": status}})

    def _send(self, status: int, body: Json | str) -> None:
        is_text = isinstance(body, str)
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if is_text else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Stay silent: /metrics counts."""


class Server(ThreadingHTTPServer):
    """A thread for each connection, all feeding one engine."""

    request_queue_size = 128  # with the default of 5, a burst waits for TCP to retry

    def __init__(self, port: int, engine: Engine) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.engine = engine

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report an error, unless it is only that the client hung up."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def start_helper(server: Server) -> None:
    """The bug of `--restart-bug`: start a helper that inherits the listening socket.

    Killed, the server leaves it behind, and with it the port: connections are still
    taken, nobody reads them, and the next start cannot bind.
    """
    words = [sys.executable, "-c", "import signal; signal.pause()"]
    subprocess.Popen(words, pass_fds=[server.fileno()], start_new_session=True)


def parse_args() -> argparse.Namespace:
    """Return the flags, `plan` reduced to the one this start uses."""
    known = ", ".join(PLANS)
    parser = argparse.ArgumentParser(description="A tiny OpenAI-compatible LLM server.")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--plan", default="auto", help=f"auto, or one or more of: {known}")
    parser.add_argument("--turn", type=int, default=1, help="take the N-th plan of the list")
    parser.add_argument("--kv-reuse", nargs="?", const="on", default="off",
                        choices=["off", "on", "stale"])  # fmt: skip
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--restart-bug", action="store_true", help="let a helper keep the port")
    args = parser.parse_args()
    plans = args.plan.split(",")
    if unknown := [plan for plan in plans if plan not in PLANS and plan != "auto"]:
        parser.error(f"unknown plan {unknown[0]!r}; known plans: auto, {known}")
    if args.turn < 1:
        parser.error("--turn counts from 1")
    args.plan = plans[(args.turn - 1) % len(plans)]
    return args


def main() -> None:
    """Serve until SIGTERM or Ctrl-C."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    args = parse_args()
    plan = autotune() if args.plan == "auto" else args.plan
    engine = Engine(Model(plan, bfloat16=args.dtype == "bfloat16"), args.kv_reuse)
    with Server(args.port, engine) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        if args.restart_bug:
            start_helper(server)
        print(f"tiny-llm on {address}: plan {plan}, kv-reuse {args.kv_reuse}", flush=True)
        try:
            server.serve_forever()
        finally:
            engine.stop()


if __name__ == "__main__":
    main()

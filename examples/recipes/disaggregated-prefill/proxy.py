# SPDX-License-Identifier: Apache-2.0
"""A proxy before one prefill and one decode server of vLLM, for tests: standard library only.

    python proxy.py --port 8192 --prefill http://127.0.0.1:8100 --decode http://127.0.0.1:8200

Each request goes to the prefill server first, for one token. What that answers as
`kv_transfer_params` goes with the request to the decode server, whose answer is the proxy's. `GET
/health` is 200 only if both servers say so: a proxy that is up proves nothing about them.
"""

import argparse
import json
import signal
import sys
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

TIMEOUT_S = 600.0
# Servers of this machine: no proxy of the environment is between.
OPENER = build_opener(ProxyHandler({}))
# What a connector of vLLM needs to hand a prompt's KV cache over (NixlConnector).
HAND_OVER = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}


def ask(url: str, body: Any = None, request_id: str = "") -> tuple[int, bytes]:
    """The status and body of an answer; 502 if there is none."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "X-Request-Id": request_id}
    try:
        with OPENER.open(Request(url, data, headers), timeout=TIMEOUT_S) as response:
            return response.status, response.read()
    except HTTPError as error:
        return error.code, error.read()
    except (URLError, OSError) as error:
        return 502, f"{url}: {error}".encode()


def for_one_token(body: dict[str, Any]) -> dict[str, Any]:
    """The request as the prefill server gets it."""
    changed = {**body, "max_tokens": 1, "stream": False, "kv_transfer_params": HAND_OVER}
    if "max_completion_tokens" in body:
        changed["max_completion_tokens"] = 1
    changed.pop("stream_options", None)
    changed.pop("min_tokens", None)
    return changed


class Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    server: "Proxy"
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_GET(self) -> None:
        """`/health`: that of both servers. Anything else is the decode server's."""
        if self.path != "/health":
            self._send(*ask(self.server.decode + self.path))
            return
        for url in (self.server.prefill, self.server.decode):
            status, _ = ask(f"{url}/health")
            if status != 200:
                self._send(503, f"{url} is not ready: {status}\n".encode())
                return
        self._send(200, b"")

    def do_POST(self) -> None:
        """Prefill, then decode. An error of either is the answer."""
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
        request_id = str(uuid.uuid4())
        status, content = ask(self.server.prefill + self.path, for_one_token(body), request_id)
        if status == 200:
            transfer = json.loads(content).get("kv_transfer_params")
            if transfer:
                body["kv_transfer_params"] = transfer
            status, content = ask(self.server.decode + self.path, body, request_id)
        if status != 200:
            print(f"{self.path}: {status} {content[:300]!r}", flush=True)
        self._send(status, content)

    def _send(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Stay silent: errors are printed."""


class Proxy(ThreadingHTTPServer):
    """A thread for each connection."""

    request_queue_size = 128

    def __init__(self, port: int, prefill: str, decode: str) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.prefill = prefill
        self.decode = decode


def main() -> None:
    """Serve until a signal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=8192)
    parser.add_argument("--prefill", required=True, help="URL of the prefill server")
    parser.add_argument("--decode", required=True, help="URL of the decode server")
    args = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    with Proxy(args.port, args.prefill, args.decode) as proxy:
        print(f"proxy on port {args.port}", flush=True)
        proxy.serve_forever()


if __name__ == "__main__":
    main()

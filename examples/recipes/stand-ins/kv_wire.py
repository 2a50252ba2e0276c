# SPDX-License-Identifier: Apache-2.0
"""Keys and values as bytes, and the requests that carry them between processes.

The real servers use ZMQ, shared memory or RDMA here. These use HTTP on the same ports.
"""

import http.client
import io
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
from model import F32

TIMEOUT_S = 10.0


def pack(keys: F32, values: F32) -> bytes:
    """Both arrays in numpy's own format."""
    file = io.BytesIO()
    np.savez(file, keys=keys, values=values)
    return file.getvalue()


def unpack(content: bytes) -> tuple[F32, F32]:
    """The inverse of `pack`. Raises ValueError."""
    with np.load(io.BytesIO(content)) as arrays:
        return arrays["keys"], arrays["values"]


def call(host: str, port: int, path: str, body: bytes | None = None) -> bytes:
    """GET, or POST with a body; returns the answer's. Raises OSError, also for another status than 200."""
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    try:
        connection.request("GET" if body is None else "POST", path, body)
        response = connection.getresponse()
        content = response.read()
    except http.client.HTTPException as error:
        raise OSError(f"{host}:{port}{path}: {error!r}") from error
    finally:
        connection.close()
    if response.status != 200:
        raise OSError(f"{host}:{port}{path}: HTTP {response.status}")
    return content


def serve_bytes(
    port: int, answer: Callable[[str, bytes], bytes | str | None], host: str = "127.0.0.1"
) -> ThreadingHTTPServer:
    """Serve `answer(path, body)` from a thread; None is 404, text is an answer in text or JSON."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

        def _answer(self, body: bytes) -> None:
            content = answer(self.path, body)
            self.send_response(404 if content is None else 200)
            data = content.encode() if isinstance(content, str) else content or b""
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer((host, port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def metrics_text(prefix: str, counters: dict[str, int], labels: str) -> str:
    """Counters as prometheus_client writes them: with `_total`."""
    lines = []
    for name, value in sorted(counters.items()):
        lines.append(f"# TYPE {prefix}{name} counter")
        lines.append(f"{prefix}{name}_total{{{labels}}} {value}.0")
    return "\n".join([*lines, ""])


def as_json(value: Any) -> str:
    """Compact JSON."""
    return json.dumps(value, separators=(",", ":"))

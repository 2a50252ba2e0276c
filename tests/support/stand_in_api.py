# SPDX-License-Identifier: Apache-2.0
"""Acts on sockets: stands in for Buildkite's REST API, and records what it is asked.

Copied: `GET /v2/organizations/O/pipelines/P/builds/N` needs `Authorization: Bearer`, answers 401 without a token that
it knows, leaves retried jobs out unless `include_retried_jobs=true`
(https://buildkite.com/docs/apis/rest-api/builds#get-a-build).
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "bkua_0123456789abcdef"
BUILD_ID = "0193a000-0000-4000-8000-000000000812"


@dataclass
class ApiRequest:
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Any


@dataclass
class StandInApi:
    """`replies` are statuses for the next requests, in order, None for the usual one; the words `hang`, `trickle` and `trickle headers` never end."""

    url: str = ""
    jobs: list[dict[str, Any]] = field(default_factory=list)
    replies: list[int | str | None] = field(default_factory=list)
    limit_resets_s: int | None = None  # the header RateLimit-Reset
    body: bytes | None = None
    requests: list[ApiRequest] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    def answer(self, request: ApiRequest) -> tuple[int, object]:
        return self._build(request)

    def _build(self, request: ApiRequest) -> tuple[int, object]:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return 401, {"message": "Authentication required."}
        everything = request.query.get("include_retried_jobs") == ["true"]
        jobs = [job for job in self.jobs if everything or not job.get("retried_in_job_id")]
        build = {"id": BUILD_ID, "commit": "4fe1a2b", "branch": "main"}
        return 200, {**build, "number": 812, "state": "running", "jobs": jobs}


def handler_for(  # noqa: C901 - the methods of one class
    api: StandInApi,
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.respond()

        def do_POST(self) -> None:
            self.respond()

        def respond(self) -> None:
            request = self.read()
            api.requests.append(request)
            reply = api.replies.pop(0) if api.replies else None
            if reply == "hang":
                api.closing.wait()
                return
            if reply == "trickle headers":
                self.trickle()
                return
            status, answer = api.answer(request)
            if isinstance(reply, int):
                status, answer = reply, {"message": f"status {reply}, for the token {TOKEN}"}
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            headers: dict[str, str] = {}
            if api.limit_resets_s is not None:
                headers["RateLimit-Reset"] = str(api.limit_resets_s)
            self.write(status, api.body or content, headers, is_slow=reply == "trickle")

        def trickle(self) -> None:
            with suppress(OSError):
                self.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
                while not api.closing.wait(0.01):
                    self.wfile.write(b"x")

        def read(self) -> ApiRequest:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = urlsplit(self.path)
            return ApiRequest(
                method=self.command,
                path=parts.path,
                query=parse_qs(parts.query),
                headers={name.lower(): value for name, value in self.headers.items()},
                body=json.loads(content) if content else None,
            )

        def write(
            self, status: int, body: bytes, headers: dict[str, str], *, is_slow: bool
        ) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            if not is_slow:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):
                while is_slow and not api.closing.wait(0.01):
                    self.wfile.write(b" ")
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@contextmanager
def running_api() -> Iterator[StandInApi]:
    api = StandInApi()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_for(api))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    api.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield api
    finally:
        api.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()

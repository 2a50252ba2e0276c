# SPDX-License-Identifier: Apache-2.0
"""Acts on sockets and files: an HTTPS server that stands in for GitHub's REST API and for webhooks.

Copied from https://docs.github.com/rest/issues/comments and https://docs.github.com/rest/users/users: comments are listed
by ascending id, 30 a page, `per_page` at most 100, with the next page in the header `Link`; POST answers 201, PATCH 200,
both with the comment; 401 without a token that it knows, 404 for what is not there; `GET /user` answers 403 to the token of
an app, whose comments have a user of the type `Bot`. A webhook of Slack answers 200 with `ok`
(https://api.slack.com/messaging/webhooks). The certificate is made for the test.
"""

import datetime as dt
import ipaddress
import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

TOKEN = "ghs_" + "0123456789abcdefghijABCDEFGHIJ012345"
# That of GitHub Actions' own token.
APP = "github-actions[bot]"
REPOSITORY = "acme/serving"
_COMMENTS = re.compile(rf"/repos/{REPOSITORY}/issues/(\d+)/comments")
_COMMENT = re.compile(rf"/repos/{REPOSITORY}/issues/comments/(\d+)")


@dataclass
class ServiceRequest:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class StandInGithub:
    """`replies`: for the next requests, in order: a status, a status with headers, `hang`, `huge`; None for the usual one."""

    url: str = ""
    certificate: Path = Path()
    login: str | None = None  # of a person's token; None for that of an app
    comments: list[dict[str, Any]] = field(default_factory=list)
    replies: list[int | tuple[int, dict[str, str]] | str | None] = field(default_factory=list)
    requests: list[ServiceRequest] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    def clear(self) -> None:
        self.login = None
        for each in (self.comments, self.replies, self.requests):
            each.clear()

    def put_comment(self, body: str, login: str = APP, type_: str = "Bot") -> int:
        number = len(self.comments) + 1
        user = {"login": login, "type": type_}
        address = f"https://github.com/{REPOSITORY}/pull/7#issuecomment-{number}"
        self.comments.append({"id": number, "body": body, "user": user, "html_url": address})
        return number

    @property
    def posted(self) -> list[Any]:
        return [each.body for each in self.requests if each.method != "GET"]

    def answer(self, request: ServiceRequest) -> tuple[int, object, dict[str, str]]:
        parts = urlsplit(request.path)
        if parts.path.startswith("/hook"):
            return 200, "ok", {}
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return 401, {"message": "Bad credentials"}, {}
        if parts.path == "/user":
            return self._user()
        if _COMMENT.fullmatch(parts.path) and request.method == "PATCH":
            return self._edited(int(parts.path.rsplit("/", 1)[1]), request)
        if _COMMENTS.fullmatch(parts.path):
            return self._of_issue(request, parse_qs(parts.query))
        return 404, {"message": "Not Found"}, {}

    def _user(self) -> tuple[int, object, dict[str, str]]:
        if self.login is None:
            return 403, {"message": "Resource not accessible by integration"}, {}
        return 200, {"login": self.login, "type": "User"}, {}

    def _edited(self, number: int, request: ServiceRequest) -> tuple[int, object, dict[str, str]]:
        for comment in self.comments:
            if comment["id"] == number:
                comment["body"] = request.body["body"]
                return 200, comment, {}
        return 404, {"message": "Not Found"}, {}

    def _of_issue(
        self, request: ServiceRequest, query: dict[str, list[str]]
    ) -> tuple[int, object, dict[str, str]]:
        if request.method == "POST":
            self.put_comment(
                request.body["body"], self.login or APP, "User" if self.login else "Bot"
            )
            return 201, self.comments[-1], {}
        page = int(query.get("page", ["1"])[0])
        size = min(int(query.get("per_page", ["30"])[0]), 100)
        headers = {}
        if len(self.comments) > page * size:
            # Elsewhere: whoever follows it shows the token to a stranger.
            headers["Link"] = f'<https://elsewhere.invalid/?page={page + 1}>; rel="next"'
        return 200, self.comments[(page - 1) * size : page * size], headers


def handler_for(  # noqa: C901 - the methods of one class
    github: StandInGithub,
) -> type[BaseHTTPRequestHandler]:
    class GithubHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.respond()

        def do_POST(self) -> None:
            self.respond()

        def do_PATCH(self) -> None:
            self.respond()

        def respond(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = json.loads(content) if content else None
            request = ServiceRequest(self.command, self.path, headers, body)
            github.requests.append(request)
            reply = github.replies.pop(0) if github.replies else None
            if reply == "hang":
                github.closing.wait()
                return
            if reply == "huge":
                self.write_huge()
                return
            if isinstance(reply, int):
                reply = (reply, {})
            if isinstance(reply, tuple):
                self.write(reply[0], {"message": f"for the token {TOKEN}"}, reply[1])
                return
            self.write(*github.answer(request))

        def write(self, status: int, answer: object, headers: dict[str, str]) -> None:
            content = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(content)

        def write_huge(self) -> None:
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while not github.closing.is_set():
                    self.wfile.write(b" " * 65536)

        def log_message(self, *_: object) -> None:
            pass

    return GithubHandler


@contextmanager
def running_github(folder: Path, *, name: str = "127.0.0.1") -> Iterator[StandInGithub]:
    """The server, with a certificate for the address `name`, which is its own issuer."""
    github = StandInGithub(certificate=folder / "certificate.pem")
    make_certificate(github.certificate, name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(github.certificate)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_for(github))
    # The handshake belongs into the thread of a connection: a client may never make it.
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    github.url = f"https://127.0.0.1:{server.server_address[1]}"
    try:
        yield github
    finally:
        github.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


def make_certificate(path: Path, address: str) -> None:
    """A key and a certificate of its own, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "stand-in")])
    now = dt.datetime.now(dt.UTC)
    day = dt.timedelta(days=1)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - day).not_valid_after(now + day)
    builder = builder.add_extension(names, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    certificate = builder.sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + certificate.public_bytes(pem))

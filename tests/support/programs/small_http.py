# SPDX-License-Identifier: Apache-2.0
"""Acts on sockets: as much of http.server and http.client as the stand-in servers need.

Those take 45 ms of CPU to import, and tests start such servers by the thousand. A connection ends with its answer.
"""

import socket
import socketserver


class Handler(socketserver.StreamRequestHandler):
    """Answers one request by `get` or `post`. `headers` has their names in lower case."""

    command: str
    path: str
    headers: dict[str, str]

    def handle(self) -> None:
        words = self.rfile.readline().decode("latin-1").split()
        if len(words) != 3:
            return
        self.command, self.path, _ = words
        self.headers = {}
        while line := self.rfile.readline().decode("latin-1").strip():
            name, _, value = line.partition(":")
            self.headers[name.lower()] = value.strip()
        if self.command == "GET":
            self.get()
        else:
            self.post()

    def get(self) -> None:
        raise NotImplementedError

    def post(self) -> None:
        raise NotImplementedError

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers["content-length"]))

    def head(self, status: int, length: int, content_type: str = "") -> None:
        lines = [f"HTTP/1.1 {status} -", f"Content-Length: {length}", "Connection: close"]
        if content_type:
            lines.append(f"Content-Type: {content_type}")
        self.wfile.write("".join(f"{line}\r\n" for line in [*lines, ""]).encode())

    def reply(self, status: int, content: bytes = b"") -> None:
        self.head(status, len(content))
        self.wfile.write(content)


class Server(socketserver.ThreadingTCPServer):
    """A thread for each connection; what goes wrong in one is its own."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        pass


def post(port: int, path: str, content: bytes) -> tuple[int, bytes]:
    """The status and the content of an answer. Raises OSError if there is none, or not all of it."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        head = f"POST {path} HTTP/1.1\r\nContent-Length: {len(content)}\r\n\r\n"
        connection.sendall(head.encode() + content)
        with connection.makefile("rb") as stream:
            answer = stream.read()
    start, _, rest = answer.partition(b"\r\n\r\n")
    words = start.split()
    # As `Handler` writes it: the version, the status, its reason, and the length first of all fields.
    if len(words) < 5 or len(rest) != int(words[4]):
        raise ConnectionError("the answer was cut off")
    return int(words[1]), rest

# SPDX-License-Identifier: Apache-2.0
"""A server that answers any HTTP request, and ends as it is told; run as a program.

PORT [--host HOST] [--load S] [--end S | --answers N] [--code N | --signal N | --hang] [--on-term N] [--daemon] [--words TEXT] [--note FILE]
"""

import argparse
import os
import signal
import socket
import sys
import time

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


def main() -> None:
    """Load, listen, serve, end."""
    options = _options()
    if options.daemon:
        for _ in range(2):
            if os.fork():
                os._exit(0)
            os.setsid()
    if options.on_term is not None:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(options.on_term))
    if options.note is not None:
        with open(options.note, "w") as file:  # noqa: PTH123 - other imports would take longer
            file.write(str(os.getpid()))
    print("INFO loading the model", flush=True)
    time.sleep(options.load)
    if not options.before:
        _serve(options)
    _end(options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int, nargs="?", default=int(os.environ.get("PORT", "0")))
    parser.add_argument("--port", dest="named", type=int)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--load", type=float, default=0.3)
    parser.add_argument("--end", type=float, default=1e6)
    parser.add_argument("--answers", type=int, default=-1, help="end after so many")
    parser.add_argument("--before", action="store_true", help="end before it listens")
    parser.add_argument("--code", type=int, default=1)
    parser.add_argument("--signal", type=int)
    parser.add_argument("--hang", action="store_true")
    parser.add_argument("--daemon", action="store_true")
    parser.add_argument("--on-term", type=int)
    parser.add_argument("--note", help="a file for its pid")
    parser.add_argument("--words", default="RuntimeError: CUDA error: device-side assert triggered")
    return parser.parse_known_args()[0]


def _serve(options: argparse.Namespace) -> None:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((options.host, options.named or options.port))
    listener.listen(64)
    listener.settimeout(0.1)
    print("INFO Application startup complete.", flush=True)
    begin = time.monotonic()
    while time.monotonic() - begin < options.end and options.answers:
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            continue
        with connection:
            request = connection.recv(4096)
            connection.sendall(ANSWER)
            options.answers -= 1
            if b"/shutdown" in request:
                sys.exit(0)


def _end(options: argparse.Namespace) -> None:
    while options.hang:
        time.sleep(1)
    if options.signal is not None:
        os.kill(os.getpid(), options.signal)
    if options.code:
        print(
            f'Traceback (most recent call last):\n  File "x.py", line 1, in serve\n{options.words}',
            file=sys.stderr,
        )
    sys.exit(options.code)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""PORT TRAITS FOLDER: a store of lines over TCP, and its clients: put PORT, ping PORT, verify PORT.

Each put is on the disk before its `ok`. With the trait `saves` it rewrites its file after every 20 puts, for a second or two, into
another file that takes its place. Further traits are faults: `truncates` rewrites the file in its place, `deadlocks` waits at
SIGTERM for a save that waits for it, `locks` leaves a lock if it is killed before it is ready, `forgets` rewrites the file in its
place when it stops.
"""

import contextlib
import itertools
import os
import signal
import socket
import socketserver
import sys
import threading
import time
from types import FrameType
from typing import TextIO

PAUSE_S = 0.2
SAVE_S = 1.5
# A client that never rests takes a core from the other tests.
BETWEEN_S = 0.01


class Store:
    """What one start keeps: `values` in memory, and all of them in a file."""

    def __init__(self, traits: str, folder: str) -> None:
        self.traits = traits
        self.path = f"{folder}/store.txt"
        self.values: dict[str, str] = {}
        self.lock = threading.RLock()
        self.stops = threading.Event()
        self.puts = itertools.count(1)
        with contextlib.suppress(FileNotFoundError), open(self.path) as file:  # noqa: PTH123
            for key, value in (line.split() for line in file if line.endswith("\n")):
                self.values[key] = value
        self.log = open(self.path, "a")  # noqa: PTH123, SIM115

    def put(self, key: str, value: str) -> None:
        """Keep a value."""
        with self.lock:
            self.values[key] = value
            self.log.write(f"{key} {value}\n")
            self.log.flush()
            os.fsync(self.log.fileno())
            if "saves" in self.traits and next(self.puts) % 20 == 0:
                self.save()

    def save(self) -> None:
        """Write all the values anew."""
        in_place = "truncates" in self.traits
        self.rewrite(self.path if in_place else f"{self.path}.new")
        while "deadlocks" in self.traits and self.stops.is_set():
            time.sleep(60)
        if not in_place:
            os.replace(f"{self.path}.new", self.path)  # noqa: PTH105
        self.log = open(self.path, "a")  # noqa: PTH123, SIM115

    def rewrite(self, path: str) -> None:
        """So slowly that a signal finds it at work."""
        print("saving", flush=True)
        with open(path, "w") as file:  # noqa: PTH123 - without pathlib it starts in half the time
            time.sleep(SAVE_S)
            file.writelines(f"{key} {value}\n" for key, value in self.values.items())
            file.flush()
            os.fsync(file.fileno())
        print("saved", flush=True)

    def stop(self, _number: int, _frame: FrameType | None) -> None:
        """At SIGTERM."""
        self.stops.set()
        if "deadlocks" in self.traits:
            with self.lock:
                pass
        if "forgets" in self.traits:
            # No put is acknowledged from here on: the file would not hold it.
            self.lock.acquire()
            self.rewrite(self.path)
        time.sleep(PAUSE_S)
        os._exit(0)


def serve(port: int, traits: str, folder: str) -> None:
    """Until it is stopped."""
    held = f"{folder}/lock"
    with open(f"{folder}/serve_store.starts", "a") as file:  # noqa: PTH123
        file.write("x")
    if "locks" in traits:
        # Fails if a dead start has left it.
        os.close(os.open(held, os.O_CREAT | os.O_EXCL))
    store = Store(traits, folder)

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            for line in self.rfile:
                word, *rest = line.decode().split()
                if word == "put":
                    store.put(*rest)
                said = store.values.get(rest[0], "") if word == "get" else "ok"
                self.wfile.write(f"{said}\n".encode())

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True

    signal.signal(signal.SIGTERM, store.stop)
    # A signal finds this start on its way: the lock is there for most of it, on a busy machine too.
    time.sleep(SAVE_S if "locks" in traits else PAUSE_S)
    if "locks" in traits:
        os.unlink(held)  # noqa: PTH108
    with Server(("127.0.0.1", port), Handler) as server:
        server.serve_forever()


def said(stream: TextIO, line: str) -> str:
    """What the store says to a line; nothing if it is gone."""
    stream.write(f"{line}\n")
    stream.flush()
    return stream.readline().strip()


def ping(stream: TextIO) -> int:
    """One answer; a failure if the store is gone."""
    answer = said(stream, "ping")
    print(answer, flush=True)
    return 0 if answer else 1


def put(stream: TextIO) -> int:
    """One put after another, each printed once it is acknowledged."""
    for number in itertools.count():
        if said(stream, f"put k{number} v{number}") != "ok":
            break
        print(f"k{number} v{number}", flush=True)
        time.sleep(BETWEEN_S)
    return 1


def verify(stream: TextIO) -> int:
    """Print each line of standard input that is not there."""
    for key, value in map(str.split, sys.stdin):
        if said(stream, f"get {key}") != value:
            print(key, value)
    return 0


if __name__ == "__main__":
    if sys.argv[1].isdigit():
        serve(int(sys.argv[1]), sys.argv[2], sys.argv[3])
    else:
        with socket.create_connection(("127.0.0.1", int(sys.argv[2]))) as connection:
            sys.exit(
                {"ping": ping, "put": put, "verify": verify}[sys.argv[1]](connection.makefile("rw"))
            )

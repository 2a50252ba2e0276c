# SPDX-License-Identifier: Apache-2.0
"""PORT WHAT DIRECTORY: makes WHAT, says its name in DIRECTORY/name, listens on PORT, and removes nothing at its end.

WHAT is `segment`, `semaphore`, `sysv`, `sets`, `queue`, `file`, `folder`, `socket`, `pid` (a file that is closed, with the pid in
its name), `closed` (the same without the pid), or `nothing`. Names are unique by a random part.
"""

import ctypes
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

port, what, directory = int(sys.argv[1]), sys.argv[2], Path(sys.argv[-1])
mark = secrets.token_hex(4)
libc = ctypes.CDLL(None)
kept: list[object] = []


def open_file(path: str) -> str:
    kept.append(open(path, "w"))  # noqa: PTH123, SIM115
    return path


def make_semaphore() -> str:
    libc.sem_open.restype = ctypes.c_void_p
    libc.sem_open(f"/kept-{mark}".encode(), os.O_CREAT, 0o600, 1)
    return f"/dev/shm/sem.kept-{mark}"


def make_set() -> str:
    number = libc.semget(0, 1, 0o1600)
    libc.semctl(number, 0, 16, 1)
    return str(number)


def make_queue() -> str:
    number = libc.msgget(0, 0o1600)
    libc.msgsnd(number, ctypes.create_string_buffer(b"\x01" + bytes(15)), 0, 0)
    return str(number)


def make_folder() -> str:
    os.mkdir(f"{temporary}/kept-{mark}")  # noqa: PTH102
    open_file(f"{temporary}/kept-{mark}/inner")
    return f"{temporary}/kept-{mark}"


def make_socket() -> str:
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(f"{directory}/kept-{mark}")
    bound.listen()
    kept.append(bound)
    return f"{directory}/kept-{mark}"


def make_closed(name: str) -> str:
    path = f"{temporary}/kept-{mark}-{name}"
    Path(path).write_text("x")
    return path


temporary = tempfile.gettempdir()
MAKERS: dict[str, Callable[[], str]] = {
    "segment": lambda: open_file(f"/dev/shm/kept-{mark}"),
    "semaphore": make_semaphore,
    "sysv": lambda: str(libc.shmget(0, 4096, 0o1600)),
    "sets": make_set,
    "queue": make_queue,
    "file": lambda: open_file(f"{temporary}/kept-{mark}"),
    "folder": make_folder,
    "socket": make_socket,
    "pid": lambda: make_closed(str(os.getpid())),
    "closed": lambda: make_closed("x"),
    "nothing": str,
}
(directory / "name").write_text(MAKERS[what]())
server = socket.create_server(("127.0.0.1", port))
while True:
    server.accept()[0].close()

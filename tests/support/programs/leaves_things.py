# SPDX-License-Identifier: Apache-2.0
"""PORT WHAT DIRECTORY: makes WHAT, says its name in DIRECTORY/name, listens on PORT, and removes nothing at its end.

WHAT is `segment`, `semaphore`, `sysv`, `sets`, `queue`, `file`, `folder`, `socket`, `pid` (a file that is closed, with the pid in
its name), `closed` (the same without the pid), or `nothing`. Names are unique by a random part.
`vllm`, `sglang`, `inductor`, `elastic`, `ray`, `triton` make what these leave, by the names that they give.
"""

import ctypes
import os
import secrets
import socket
import sys
import tempfile
import uuid
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


def bind(path: str) -> str:
    bound = socket.socket(socket.AF_UNIX)
    os.chdir(os.path.dirname(path))  # noqa: PTH120 - the whole path may be too long for a socket
    bound.bind(os.path.basename(path))  # noqa: PTH119
    bound.listen()
    kept.append(bound)
    return path


def make_sockets_of_sglang() -> str:
    """As `NamedTemporaryFile(delete=False)`, whose file ZeroMQ replaces by its socket."""
    names = []
    for _ in range(3):
        with tempfile.NamedTemporaryFile(delete=False) as file:
            os.unlink(file.name)  # noqa: PTH108
        names.append(bind(file.name))
    return "\n".join(names)


def make_tree(*parts: str) -> str:
    folder = Path(temporary, *parts)
    folder.mkdir(parents=True)
    open_file(f"{folder}/inner")
    return f"{temporary}/{parts[0]}"


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
    "vllm": lambda: "\n".join(bind(f"{temporary}/{uuid.uuid4()}") for _ in range(3)),
    "sglang": make_sockets_of_sglang,
    "inductor": lambda: make_tree(f"torchinductor_{mark}", "kq"),
    "elastic": lambda: make_tree(f"torchelastic_{mark}", "none_x"),
    "ray": lambda: make_tree("ray", f"session_2026-11-03_16-33-59_356303_{os.getpid()}", "logs"),
    "triton": lambda: make_tree(".triton", "cache"),
    "nothing": str,
}
(directory / "name").write_text(MAKERS[what]())
server = socket.create_server(("127.0.0.1", port))
while True:
    server.accept()[0].close()

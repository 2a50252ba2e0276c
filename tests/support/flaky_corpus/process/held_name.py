"""A test leaves a process in a session of its own that listens on a socket."""

import socket
import subprocess
import sys
from pathlib import Path

NAME = f"\0shop-{Path.cwd()}"
HOLDER = (
    "import socket, sys, time; s = socket.socket(socket.AF_UNIX); "
    "s.bind(chr(0) + sys.argv[1]); print(1, flush=True); time.sleep(600)"
)


def test_server_starts() -> None:
    words = [sys.executable, "-S", "-c", HOLDER, NAME[1:]]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == b"1\n"


def test_server_name() -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(NAME)

"""A rank of a job: it asks for a transfer that all ranks of the machine share.

cache_rank.py DIRECTORY PORT TIMEOUT: the transfer is one line read from 127.0.0.1:PORT, which fails
after TIMEOUT seconds. Prints the result, and whether another rank made it.
"""

import json
import os
import socket
import sys
from pathlib import Path

from ci_doctor.caches.leader import WorkResult, once


def transfer() -> WorkResult:
    try:
        with socket.create_connection(("127.0.0.1", int(sys.argv[2]))) as connection:
            connection.settimeout(float(sys.argv[3]))
            connection.sendall(f"{os.getpid()}\n".encode())
            content = connection.recv(100).decode()
    except TimeoutError:
        content = "failed"
    return WorkResult(content=json.dumps(content).encode(), holds_s=600)


agreed = once(Path(sys.argv[1]), "restore", 60, transfer, lambda _: True)
sys.stdout.write(f"{json.loads(agreed.content)} {'shared' if agreed.is_shared else 'own'}\n")

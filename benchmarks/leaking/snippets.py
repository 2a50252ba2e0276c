# SPDX-License-Identifier: Apache-2.0
"""WHAT PORT WORK: a server that uses WHAT, and leaves to others what is to be removed."""

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

what, port, work = sys.argv[1], int(sys.argv[2]), sys.argv[3]
kept: list[object] = []


def serve() -> None:
    with socket.create_server(("127.0.0.1", port)) as server:
        while True:
            server.accept()[0].close()


def segment(size: int = 1 << 20) -> None:
    from multiprocessing.shared_memory import SharedMemory

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    kept.append(SharedMemory(create=True, size=size))


def untracked() -> None:
    from multiprocessing import resource_tracker

    segment()
    os.kill(resource_tracker._resource_tracker._pid, signal.SIGKILL)  # type: ignore[attr-defined]  # noqa: SLF001


def hold_segment() -> None:
    segment()
    while True:
        time.sleep(1000)


def workers() -> None:
    context = multiprocessing.get_context("spawn")
    for _ in range(2):
        process = context.Process(target=hold_segment)
        process.start()
        kept.append(process)
    time.sleep(1.0)


def manager() -> None:
    kept.append(multiprocessing.Manager())
    kept.append(kept[-1].dict())  # type: ignore[attr-defined]


def memory_manager() -> None:
    from multiprocessing.managers import SharedMemoryManager

    made = SharedMemoryManager()
    made.start()
    kept.extend((made, made.SharedMemory(1 << 20)))


def double(number: int) -> int:
    return number * 2


def forkserver() -> None:
    from concurrent.futures import ProcessPoolExecutor

    pool = ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("forkserver"))
    list(pool.map(double, range(4)))
    kept.append(pool)


def loky() -> None:
    import joblib
    import numpy as np

    large = np.ones(4_000_000)
    parallel = joblib.Parallel(n_jobs=2, max_nbytes=1000)
    parallel(joblib.delayed(np.sum)(large) for _ in range(4))
    kept.extend((parallel, large))


def posix() -> None:
    import posix_ipc

    memory = posix_ipc.SharedMemory(f"/torch_{os.getpid()}_1", posix_ipc.O_CREX, size=1 << 20)
    kept.extend((memory, posix_ipc.Semaphore(f"/trial-{port}", posix_ipc.O_CREX)))


def system_v() -> None:
    import sysv_ipc

    memory = sysv_ipc.SharedMemory(None, sysv_ipc.IPC_CREX, size=1 << 20)
    semaphore = sysv_ipc.Semaphore(None, sysv_ipc.IPC_CREX, initial_value=1)
    semaphore.acquire()
    queue = sysv_ipc.MessageQueue(None, sysv_ipc.IPC_CREX)
    queue.send(b"x")
    kept.extend((memory, semaphore, queue))


def open_files() -> None:
    folder = tempfile.mkdtemp(prefix="trial-")
    kept.append(open(f"{folder}/cache", "w"))  # noqa: PTH123, SIM115
    kept.append(tempfile.NamedTemporaryFile(delete=False, prefix="trial-"))  # noqa: SIM115


def closed_files() -> None:
    tempfile.mkdtemp(prefix="trial-")
    descriptor, _ = tempfile.mkstemp(prefix="trial-")
    os.close(descriptor)


def zeromq() -> None:
    import zmq

    bound = zmq.Context.instance().socket(zmq.REP)
    bound.bind(f"ipc://{work}/zmq.sock")
    kept.append(bound)


def shell() -> None:
    kept.append(subprocess.Popen(["sh", "-c", "trap '' INT TERM; cat"], stdin=subprocess.PIPE))


USES = {
    "segment": segment,
    "untracked": untracked,
    "workers": workers,
    "manager": manager,
    "memory-manager": memory_manager,
    "forkserver": forkserver,
    "loky": loky,
    "posix-ipc": posix,
    "sysv-ipc": system_v,
    "open-files": open_files,
    "closed-files": closed_files,
    "zmq": zeromq,
    "shell": shell,
}

if __name__ == "__main__":
    USES[what]()
    serve()

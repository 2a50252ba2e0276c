# SPDX-License-Identifier: Apache-2.0
"""Two processes that rendezvous over a socket, log as torchrun and NCCL do, and finish."""

import logging
import math
import multiprocessing
import os
import socket
import sys
import time
import warnings

log = logging.getLogger("train")
PORT = int(sys.argv[1])


def be_rank(rank: int) -> None:
    form = (
        f"[rank{rank}]:[%(levelname).1s%(asctime)s {os.getpid()} train.py:%(lineno)d] %(message)s"
    )
    logging.basicConfig(
        level=logging.DEBUG, format=form, datefmt="%m%d %H:%M:%S", stream=sys.stderr
    )
    warnings.warn("destroy_process_group() was not called; this may leak resources", stacklevel=1)
    if rank == 0:
        time.sleep(1.5)
        with socket.create_server(("127.0.0.1", PORT)) as server:
            server.accept()[0].close()
    else:
        connect()
    for step in range(1, 6):
        loss = math.nan if step == 2 else 1 / step
        if math.isnan(loss):
            log.error("step %d: loss is NaN, gradient overflow, skipping step", step)
        print(f"\rstep {step}/5 loss {loss:.3f} errors 0", end="", flush=True)
    print()
    log.warning("TCPStore: failed to recv, got 0 bytes; ignored while shutting down")


def connect() -> None:
    for attempt in range(1, 100):
        try:
            socket.create_connection(("127.0.0.1", PORT)).close()
        except OSError as error:
            log.warning(
                "[c10d] The client socket has failed to connect to [localhost]:%d (errno: 111 - %s). Attempt %d",
                PORT,
                error.strerror,
                attempt,
            )
            time.sleep(0.3)
        else:
            return


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    ranks = [multiprocessing.Process(target=be_rank, args=(rank,)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    print("exit codes:", [rank.exitcode for rank in ranks])
    sys.exit(max(rank.exitcode for rank in ranks))

# SPDX-License-Identifier: Apache-2.0
"""Several ranks that compute each token together, and wait for one another at the start.

Rank 0 listens on the master port, as the TCPStore of torch.distributed does, and serves nobody until
all have joined. Then every rank computes its share of the vocabulary for every token (a column of
the last matrix product is whole, so no bit depends on the number of ranks). A rank that is lost
ends the others, as NCCL's watchdog does.
"""

import os
import socket
import struct
import sys
import threading
import time

import numpy as np
from model import F32, PLANS, Model, matmul

_RETRY_S = 0.05


def share(weight: F32, rank: int, ranks: int) -> F32:
    """The columns of the vocabulary that `rank` computes."""
    parts: list[F32] = np.array_split(weight, ranks, axis=1)
    return np.ascontiguousarray(parts[rank])


def _send(peer: socket.socket, rows: F32) -> None:
    peer.sendall(struct.pack("<II", *rows.shape) + rows.tobytes())


def _receive(peer: socket.socket) -> F32:
    """Raises ConnectionError if the other side has gone."""
    height, width = struct.unpack("<II", _exactly(peer, 8))
    data = _exactly(peer, height * width * 4)
    return np.frombuffer(data, np.float32).reshape(height, width)


def _exactly(peer: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        more = peer.recv(count - len(data))
        if not more:
            raise ConnectionError("the other rank has closed its connection")
        data += more
    return bytes(data)


class ShardedModel(Model):
    """The model of rank 0: the others compute their columns of the last product."""

    def __init__(self, plan: str, peers: list[socket.socket]) -> None:
        super().__init__(plan)
        self._peers = peers
        self._own = share(self.lm_head, 0, len(peers) + 1)

    def _linear(self, x: F32, weight: F32) -> F32:
        if weight is not self.lm_head:
            return super()._linear(x, weight)
        for peer in self._peers:
            _send(peer, x)
        own = super()._linear(x, self._own)
        return np.concatenate([own, *(_receive(peer) for peer in self._peers)], axis=1)


class DistStoreError(RuntimeError):
    """What torch.distributed raises if ranks are missing."""


# A traceback prints it as torch's.
DistStoreError.__module__ = "torch.distributed"


def gather(address: str, port: int, ranks: int, limit_s: int) -> list[socket.socket]:
    """Rank 0: wait until every other rank has joined; return their connections in order.

    Raises DistStoreError after `limit_s` seconds.
    """
    joined: dict[int, socket.socket] = {}
    deadline = time.monotonic() + limit_s
    _announce(address, port, 0, ranks)
    with socket.create_server((address, port)) as server:
        while len(joined) < ranks - 1:
            server.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                peer, _ = server.accept()
            except TimeoutError:
                # torch counts the second that it waits beyond the timeout.
                raise DistStoreError(
                    f"Timed out after {limit_s + 1} seconds waiting for clients. "
                    f"{len(joined) + 1}/{ranks} clients joined."
                ) from None
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            (rank,) = struct.unpack("<I", _exactly(peer, 4))
            joined[rank] = peer
    return [joined[rank] for rank in sorted(joined)]


def join_and_work(address: str, port: int, rank: int, ranks: int, plan: str) -> None:
    """Another rank: join, then compute until rank 0 has gone. Raises ConnectionError then."""
    _announce(address, port, rank, ranks)
    model = Model(plan)
    own = share(model.lm_head, rank, ranks)
    peer = _connected(address, port)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.sendall(struct.pack("<I", rank))
    while True:
        rows = _receive(peer)
        _send(peer, matmul(rows, own, PLANS[plan], bfloat16=True))


def _announce(address: str, port: int, rank: int, ranks: int) -> None:
    # vllm/distributed/parallel_state.py, `init_distributed_environment`.
    method = f"tcp://{address}:{port}"
    print(
        f"world_size={ranks} rank={rank} local_rank=0 distributed_init_method={method} "
        "backend=nccl",
        flush=True,
    )


def _connected(address: str, port: int) -> socket.socket:
    while True:
        try:
            return socket.create_connection((address, port))
        except ConnectionRefusedError:
            time.sleep(_RETRY_S)  # as a torch client does


def end_with_the_engine() -> None:
    """A server whose engine dies ends: an uncaught exception of any thread ends the process."""

    def hook(args: threading.ExceptHookArgs) -> None:
        threading.__excepthook__(args)
        print("EngineDeadError: EngineCore encountered an issue.", file=sys.stderr, flush=True)
        os._exit(1)

    threading.excepthook = hook

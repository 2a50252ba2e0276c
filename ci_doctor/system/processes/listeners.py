# SPDX-License-Identifier: Apache-2.0
"""Reads from the kernel who listens on a port.

By its socket diagnosis (sock_diag(7)), which skips the thousands of other connections.
"""

import contextlib
import os
import socket
import struct
from collections.abc import Iterable, Iterator

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_ERROR = 2
_DONE = 3
_LISTEN = 10  # TCP_LISTEN, include/net/tcp_states.h
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBBI")
_REST_OF_REQUEST = bytes(46)  # struct inet_diag_req_v2 after the source port
# struct inet_diag_msg (sock_diag(7)): the port begins at byte 4, the inode at byte 68.
_PORT = struct.Struct("!H")
_INODE = struct.Struct("=I")


def is_listened_on(port: int) -> bool:
    """Whether TCP `port` is listened on at any address of this network namespace."""
    return bool(listening_inodes(port))


def listening_inodes(port: int) -> frozenset[int]:
    """The inodes of the sockets that listen on TCP `port`.

    From /proc/net if the kernel has no socket diagnosis.
    """
    return frozenset(inode for inode, number in listening_ports(port).items() if number == port)


def listening_ports(port: int = 0) -> dict[int, int]:
    """The TCP port of each listening socket, by inode; a `port` makes the kernel leave out others.

    Raises OSError if the kernel has no socket diagnosis, and /proc/net cannot be read.
    """
    try:
        return dict(_diagnosed(port))
    except OSError:
        return dict(_listed())


def holders(pids: Iterable[int], inodes: frozenset[int]) -> Iterator[int]:
    """Those of `pids` that hold one of these sockets, as far as we may look into them."""
    names = {f"socket:[{inode}]" for inode in inodes}
    for pid in pids:
        if _holds(pid, names):
            yield pid


def _holds(pid: int, names: set[str]) -> bool:
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - thousands of Path objects
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{name}") in names:  # noqa: PTH115
                    return True
    return False


def _diagnosed(port: int) -> Iterator[tuple[int, int]]:
    """(inode, port); not every kernel filters a dump by the source port, and 0 is any."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as diagnosis:
        for family in (socket.AF_INET, socket.AF_INET6):
            wanted = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, 1 << _LISTEN)
            request = wanted + _PORT.pack(port) + _REST_OF_REQUEST
            size = _HEADER.size + len(request)
            header = _HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0)
            diagnosis.send(header + request)
            yield from _answers(diagnosis)


def _answers(diagnosis: socket.socket) -> Iterator[tuple[int, int]]:
    """(inode, port) of each socket until the kernel sends "done". Raises OSError if it refuses."""
    while True:
        data = diagnosis.recv(1 << 16)
        while len(data) >= _HEADER.size:
            size, kind, *_ = _HEADER.unpack_from(data)
            if kind == _DONE:
                return
            if kind == _ERROR:
                (negative_errno,) = struct.unpack_from("=i", data, _HEADER.size)
                raise OSError(-negative_errno, "sock_diag")
            (port,) = _PORT.unpack_from(data, _HEADER.size + 4)
            (inode,) = _INODE.unpack_from(data, _HEADER.size + 68)
            yield inode, port
            # Messages begin at multiples of four (NLMSG_ALIGN, netlink(3)).
            data = data[(size + 3) & ~3 :]


def _listed() -> Iterator[tuple[int, int]]:
    state = b"%02X" % _LISTEN
    for path in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        with (
            contextlib.suppress(FileNotFoundError),
            open(path, "rb") as table,  # noqa: PTH123 - many times a second
        ):
            for line in table:
                fields = line.split(None, 10)
                is_row = len(fields) > 9
                if is_row and fields[3] == state:
                    yield int(fields[9]), int(fields[1].rpartition(b":")[2], 16)

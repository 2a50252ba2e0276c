# SPDX-License-Identifier: Apache-2.0
"""Reads from the kernel who listens on a port, and which connections inside this machine were refused."""

import contextlib
import ctypes
import ipaddress
import os
import socket
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

_SOL_NETLINK = 270
_ADD_MEMBERSHIP = 1
_TCP_DESTROY_IPV4 = 1
_TCP_DESTROY_IPV6 = 3
_ATTACH_FILTER = 26
_NEVER_ESTABLISHED = 7  # TCP_CLOSE of include/net/tcp_states.h
# Offsets in a message: struct nlmsghdr, then struct inet_diag_msg (sock_diag(7)).
_STATE, _PORTS_AT, _FROM, _TO = 17, 20, 24, 40
# struct inet_diag_msg ends; INET_DIAG_PROTOCOL takes 8 bytes, the head of INET_DIAG_INFO 4, and
# tcpi_bytes_acked stands at 120 of struct tcp_info (linux/tcp.h). Its low half is enough.
_ACKED = 16 + 72 + 8 + 4 + 120 + (0 if struct.pack("=H", 1)[0] else 4)
_BYTES = 1 << 16


def _only_refused() -> bytes:
    """The filter: a state of TCP_CLOSE, and nothing acknowledged (linux/filter.h)."""
    load_byte, load_word, equals, answer = 0x30, 0x20, 0x15, 0x06
    program = (
        (load_byte, 0, 0, _STATE),
        (equals, 0, 3, _NEVER_ESTABLISHED),
        (load_word, 0, 0, _ACKED),
        (equals, 0, 1, 0),
        (answer, 0, 0, 0xFFFF),
        (answer, 0, 0, 0),
    )
    return b"".join(struct.pack("=HBBI", *step) for step in program)


class Refusals:
    """The refused connections from now on; none if the system does not tell (`is_known`)."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self.is_known = False
        with contextlib.suppress(OSError):
            events = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG)
            self._socket = events
            events.setblocking(False)
            steps = ctypes.create_string_buffer(_only_refused())
            program = struct.pack("@HP", len(steps.raw) // 8, ctypes.addressof(steps))
            events.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, program)
            events.bind((0, 0))
            for group in (_TCP_DESTROY_IPV4, _TCP_DESTROY_IPV6):
                events.setsockopt(_SOL_NETLINK, _ADD_MEMBERSHIP, group)
            self.is_known = True

    def read(self) -> list[int]:
        """The port of each since the last call; 0 if the caller let the kernel forget it.

        A connect(2) that blocked has no port any more. Some are missing if there were thousands.
        """
        return list(self._read()) if self.is_known else []

    def _read(self) -> Iterator[int]:
        while self._socket is not None:
            try:
                message = self._socket.recv(_BYTES)
            except BlockingIOError:
                return
            except OSError:  # ENOBUFS: some are lost
                continue
            if len(message) < _TO + 16:
                continue
            port = struct.unpack_from("!HH", message, _PORTS_AT)[1]
            family = message[16]
            size = 4 if family == socket.AF_INET else 16
            source, target = message[_FROM : _FROM + size], message[_TO : _TO + size]
            # Without an address it was a listener that ended.
            if any(target) and is_inside(source, target):
                yield port

    def close(self) -> None:
        """Give the file descriptor back; may be called again."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def is_inside(source: bytes, target: bytes) -> bool:
    """Whether a connection between these addresses stays inside the machine."""
    return source == target or _is_loopback(target)


def _is_loopback(address: bytes) -> bool:
    parsed = ipaddress.ip_address(address)
    mapped = getattr(parsed, "ipv4_mapped", None)
    return parsed.is_loopback or (mapped is not None and mapped.is_loopback)


# --- who listens on a port ---


_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_ERROR = 2
_DONE = 3
# include/net/tcp_states.h
_ESTABLISHED = 1
_TIME_WAIT = 6
_TIME_WAIT_S = 60
_CLOSE_WAIT = 8
_LISTEN = 10
_INFO = 2  # INET_DIAG_INFO, linux/inet_diag.h
_WITH_INFO = 1 << (_INFO - 1)
# struct unix_diag_req, and what it asks for (linux/unix_diag.h).
_UNIX_REQUEST = struct.Struct("=BBHIIIII")
_NAME_AND_FILE = 1 | 2
_UNIX_NAME = 0
_UNIX_FILE = 1
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBBI")
_REST_OF_REQUEST = bytes(46)  # struct inet_diag_req_v2 after the source port
# struct inet_diag_msg (sock_diag(7)): the port begins at byte 4, the inode at byte 68.
_PORT = struct.Struct("!H")
_PORTS = struct.Struct("!HH")
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


def socket_inodes(path: Path) -> frozenset[int]:
    """The inodes of the listening unix sockets that `path` leads to; none if nobody can tell.

    By the file, because a server may have bound another way to write its path.
    """
    inodes = set()
    with contextlib.suppress(OSError):
        file = path.stat().st_ino & 0xFFFFFFFF
        wanted = _UNIX_REQUEST.pack(socket.AF_UNIX, 0, 0, 1 << _LISTEN, 0, _NAME_AND_FILE, 0, 0)
        for message in _messages(wanted):
            attributes = dict(_attributes(message[16:]))
            name = attributes.get(_UNIX_NAME, b"").rstrip(b"\0").rpartition(b"/")[2]
            # Also its name: two file systems may give one number to two files.
            if attributes.get(_UNIX_FILE, b"")[:4] == _INODE.pack(file) and name == os.fsencode(
                path.name
            ):
                inodes.add(_INODE.unpack_from(message, 4)[0])
    return frozenset(inodes)


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


def served_bytes(port: int) -> dict[object, int]:
    """What was sent from TCP `port` of this machine and has arrived, by connection.

    A connection that ended in good order is in it for a minute: with 0 bytes no more than that is
    known of it. Raises OSError if the kernel has no socket diagnosis.
    """
    served: dict[object, int] = {}
    states = 1 << _ESTABLISHED | 1 << _TIME_WAIT | 1 << _CLOSE_WAIT
    for message in _dump(states, _WITH_INFO):
        state, ends = message[1], message[4:40]
        ports = _PORTS.unpack_from(message, 4)
        if state == _TIME_WAIT and port in ports:
            served[ends] = 1
        elif ports[0] == port:
            served[ends] = _counters(message)[0]
    return served


def was_reached(port: int, within_s: float) -> bool:
    """Whether a connection inside this machine to TCP `port` came about: it is up, or ended in the last seconds, a minute at most.

    Raises OSError if the kernel has no socket diagnosis.
    """
    states = 1 << _ESTABLISHED | 1 << _TIME_WAIT | 1 << _CLOSE_WAIT
    for message in _dump(states, _WITH_INFO):
        if _ended_s_ago(message) > within_s:
            continue
        # The family's addresses begin at byte 8 and 24 (struct inet_diag_sockid).
        size = 4 if message[0] == socket.AF_INET else 16
        source, target = message[8 : 8 + size], message[24 : 24 + size]
        if port in _PORTS.unpack_from(message, 4) and is_inside(source, target):
            return True
    return False


def _ended_s_ago(message: bytes) -> float:
    """The seconds since the other side ended a connection; 0 if it did not, or if the kernel cannot tell."""
    state = message[1]
    ms: int
    if state == _TIME_WAIT:
        # idiag_expires: the milliseconds that are left of the minute (TCP_TIMEWAIT_LEN).
        (ms,) = struct.unpack_from("=I", message, 52)
        return _TIME_WAIT_S - ms / 1000
    info = dict(_attributes(message[72:])).get(_INFO, b"")
    if state == _CLOSE_WAIT and len(info) >= 60:
        # tcpi_last_ack_recv (linux/tcp.h), in milliseconds: the packet that ends a connection holds an ACK.
        (ms,) = struct.unpack_from("=I", info, 56)
        return ms / 1000
    return 0


def moved_bytes() -> dict[object, int]:
    """What each connection that is up has sent and received, as far as that has arrived.

    Raises OSError if the kernel has no socket diagnosis.
    """
    return {
        message[4:40]: sum(_counters(message)) for message in _dump(1 << _ESTABLISHED, _WITH_INFO)
    }


def _counters(message: bytes) -> tuple[int, int]:
    """tcpi_bytes_acked and tcpi_bytes_received of a struct inet_diag_msg (linux/tcp.h)."""
    info = dict(_attributes(message[72:])).get(_INFO, b"")
    return struct.unpack_from("=QQ", info, 120) if len(info) >= 136 else (0, 0)


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The kind and the content of each struct rtattr (rtnetlink(7))."""
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        yield kind, data[4:length]
        data = data[max(4, (length + 3) & ~3) :]


def _diagnosed(port: int) -> Iterator[tuple[int, int]]:
    """(inode, port); not every kernel filters a dump by the source port, and 0 is any."""
    for message in _dump(1 << _LISTEN, 0, port):
        yield _INODE.unpack_from(message, 68)[0], _PORT.unpack_from(message, 4)[0]


def _dump(states: int, extensions: int, port: int = 0) -> Iterator[bytes]:
    """The struct inet_diag_msg of each TCP socket in one of these states, with its attributes."""
    for family in (socket.AF_INET, socket.AF_INET6):
        wanted = _REQUEST.pack(family, socket.IPPROTO_TCP, extensions, 0, states)
        yield from _messages(wanted + _PORT.pack(port) + _REST_OF_REQUEST)


def _messages(request: bytes) -> Iterator[bytes]:
    """What the kernel answers to a dump. Raises OSError if it has no socket diagnosis."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as diagnosis:
        size = _HEADER.size + len(request)
        header = _HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0)
        diagnosis.send(header + request)
        yield from _answers(diagnosis)


def _answers(diagnosis: socket.socket) -> Iterator[bytes]:
    """The message of each socket until the kernel sends "done". Raises OSError if it refuses."""
    while True:
        data = diagnosis.recv(1 << 16)
        while len(data) >= _HEADER.size:
            size, kind, *_ = _HEADER.unpack_from(data)
            if kind == _DONE:
                return
            if kind == _ERROR:
                (negative_errno,) = struct.unpack_from("=i", data, _HEADER.size)
                raise OSError(-negative_errno, "sock_diag")
            yield data[_HEADER.size : size]
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

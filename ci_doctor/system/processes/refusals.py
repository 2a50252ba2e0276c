# SPDX-License-Identifier: Apache-2.0
"""Reads from the kernel which connections inside this machine were refused.

Its socket diagnosis tells every user of each TCP socket of the network namespace that ends
(SKNLGRP_INET_TCP_DESTROY, linux/sock_diag.h, Linux 4.2). A filter in the kernel (bpf of
socket(7)) keeps those that never sent a byte, so that the connections of a load test wake nobody.
"""

import contextlib
import ctypes
import ipaddress
import socket
import struct
from collections.abc import Iterator

_NETLINK_SOCK_DIAG = 4
_SOL_NETLINK = 270
_ADD_MEMBERSHIP = 1
_TCP_DESTROY_IPV4 = 1
_TCP_DESTROY_IPV6 = 3
_ATTACH_FILTER = 26
_NEVER_ESTABLISHED = 7  # TCP_CLOSE of include/net/tcp_states.h
# Offsets in a message: struct nlmsghdr, then struct inet_diag_msg (sock_diag(7)).
_STATE, _PORTS, _FROM, _TO = 17, 20, 24, 40
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
            port = struct.unpack_from("!HH", message, _PORTS)[1]
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

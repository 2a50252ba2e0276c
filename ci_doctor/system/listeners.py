# SPDX-License-Identifier: Apache-2.0
"""Reads /proc/net: whether anybody listens on a port, without a walk through all processes."""

_LISTEN = b"0A"  # TCP_LISTEN, include/net/tcp_states.h


def is_listened_on(port: int) -> bool:
    """Whether TCP `port` is listened on at any address of this network namespace (proc_net_tcp(5))."""
    wanted = b":%04X" % port
    for path in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        try:
            with open(path, "rb") as table:  # noqa: PTH123 - asked many times a second
                next(table, None)
                if any(_matches(line, wanted) for line in table):
                    return True
        except FileNotFoundError:  # no IPv6
            continue
    return False


def _matches(line: bytes, wanted: bytes) -> bool:
    fields = line.split(None, 4)
    return len(fields) > 3 and fields[3] == _LISTEN and fields[1].endswith(wanted)

# SPDX-License-Identifier: Apache-2.0
"""Reads the addresses of a name, as programs get them (getaddrinfo(3))."""

from msgspec import Struct


class Lookup(Struct, frozen=True, kw_only=True):
    """The `addresses` of a name, or `error`: why there are none."""

    addresses: tuple[str, ...] = ()
    error: str | None = None


def look_up_name(name: str) -> Lookup:
    """Ask the system's resolver for `name`; it may take as long as its nameservers do."""
    import socket

    try:
        answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None)
        return Lookup(error=reason or str(error))
    # Each once, in the order in which programs try them.
    addresses = dict.fromkeys(str(address[0]) for *_, address in answers)
    return Lookup(addresses=tuple(addresses))

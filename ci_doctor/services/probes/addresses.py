# SPDX-License-Identifier: Apache-2.0
"""Acts on sockets: resolves the name of a host without holding up anything else."""

import asyncio
import contextlib
import ipaddress
import socket
import threading


def is_loopback(host: str) -> bool:
    """Whether `host` is a loopback address, or `localhost`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(_without_zone(host)).is_loopback
    except ValueError:
        return False


async def addresses(host: str, port: int) -> list[str]:
    """The addresses of `host`. Raises OSError if it has none.

    The event loop's own resolver is not used: the end of the loop waits for its threads, and a name
    server that does not answer would delay the news of a death.
    """
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(_without_zone(host))
        return [host]
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def deliver(result: list[str] | OSError) -> None:
        if answer.done():
            return
        if isinstance(result, OSError):
            answer.set_exception(result)
        else:
            answer.set_result(result)

    def resolve() -> None:
        result = _resolved(host, port)
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(deliver, result)

    threading.Thread(target=resolve, daemon=True, name="resolver").start()
    return await answer


def _resolved(host: str, port: int) -> list[str] | OSError:
    try:
        rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        return error
    except UnicodeError:  # the idna codec refuses it
        return OSError(f"{host} is no name of a host")
    # Each address once, in the order of preference (RFC 6724).
    return list(dict.fromkeys(str(row[4][0]) for row in rows))


def _without_zone(host: str) -> str:
    return host.partition("%")[0]

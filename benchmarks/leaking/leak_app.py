# SPDX-License-Identifier: Apache-2.0
"""An empty application, by either protocol of Python's web servers."""

from collections.abc import Awaitable, Callable
from typing import Any


async def app(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """ASGI."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def wsgi(_: dict[str, Any], start: Callable[[str, list[tuple[str, str]]], object]) -> list[bytes]:
    """WSGI."""
    start("200 OK", [])
    return [b""]

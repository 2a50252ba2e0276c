# SPDX-License-Identifier: Apache-2.0
"""Acts on sockets: a server inside the test's own loop that gives one reply, byte for byte, to whatever it is asked."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from ci_doctor.load.requests import Request


def http(content: bytes, status: str = "200 OK", headers: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\n{headers}\r\n"
    return head.encode() + content


class CannedServer:
    """Reads a request, then writes `reply` and closes; counts those that are under way."""

    def __init__(self, reply: bytes, *, hold: int = 0) -> None:
        self.reply = reply
        self.hold = hold
        self.under_way = self.most = 0
        self.full = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        if self.under_way >= self.hold:
            self.full.set()
        try:
            await self.answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        await reader.readexactly(int(length[1]) if length else 0)
        if self.hold:
            await self.full.wait()
        self.under_way -= 1
        writer.write(self.reply)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            self.full.set()  # from 3.12 on a server waits for its handlers to end


def requests(count: int = 1) -> Sequence[Request]:
    return [
        Request(id=f"r{number}", path="/v1/completions", body={"prompt": "x"}, line=1)
        for number in range(count)
    ]

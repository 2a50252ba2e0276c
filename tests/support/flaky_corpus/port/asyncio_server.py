"""A test starts an asyncio server on a fixed port."""

import asyncio


async def _serve() -> int:
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 47000)
    async with server:
        return int(server.sockets[0].getsockname()[1])


def test_serves() -> None:
    assert asyncio.run(_serve()) == 47000

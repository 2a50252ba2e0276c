"""A test asks a service with asyncio."""

import asyncio


async def _ask() -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", 48000)
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    await writer.drain()
    answer = await reader.readexactly(4)
    writer.close()
    return answer


def test_asks() -> None:
    assert asyncio.run(_ask()) == b"HTTP"

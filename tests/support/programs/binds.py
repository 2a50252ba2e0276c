# SPDX-License-Identifier: Apache-2.0
"""PORT [AGAIN]: listens on PORT, then dies of listening on AGAIN, as logged by asyncio."""

import asyncio
import sys


async def serve() -> None:
    for port in sys.argv[1:3]:
        await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", int(port))
    await asyncio.Event().wait()


asyncio.run(serve())

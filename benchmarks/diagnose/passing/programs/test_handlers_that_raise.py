# SPDX-License-Identifier: Apache-2.0
"""Passing tests of a server whose handlers raise; the server logs each traceback and lives on."""

import asyncio
import logging

import pytest
from aiohttp import ClientConnectorError, ClientSession, web

log = logging.getLogger("app")


async def divide(request: web.Request) -> web.Response:
    return web.Response(text=str(1 / int(request.query["by"])))


async def slow(_request: web.Request) -> web.Response:
    await asyncio.sleep(0.01)
    raise ConnectionError("upstream timed out after 0.01 s")


async def chained(_request: web.Request) -> web.Response:
    try:
        {}["model"]
    except KeyError as error:
        raise RuntimeError("Engine core initialization failed") from error


@pytest.fixture
async def client(aiohttp_client):
    app = web.Application()
    app.router.add_get("/divide", divide)
    app.router.add_get("/slow", slow)
    app.router.add_get("/chained", chained)
    return await aiohttp_client(app)


@pytest.mark.parametrize("path", ["/divide?by=0", "/divide", "/slow", "/chained"])
async def test_an_error_in_a_handler_is_an_answer_500(client, path):
    response = await client.get(path)

    assert response.status == 500


async def test_the_server_answers_after_errors(client):
    await client.get("/divide?by=0")

    assert (await client.get("/divide?by=2")).status == 200


async def test_a_refused_connection_is_tried_again():
    async with ClientSession() as session:
        for attempt in range(1, 4):
            try:
                await session.get("http://127.0.0.1:1/health")
            except ClientConnectorError as error:
                log.warning("attempt %d of 3 failed: %s, retrying", attempt, error)
                print(f"ERROR: attempt {attempt}: {error}")

# SPDX-License-Identifier: Apache-2.0
"""An ASGI application whose handlers raise; its server logs that, and lives on."""

import logging
import os

from fastapi import FastAPI

app = FastAPI()
log = logging.getLogger("uvicorn.error")


@app.get("/health")
def health() -> dict[str, str]:
    return {"status": "ok"}


@app.get("/boom")
def boom() -> None:
    raise RuntimeError("Engine core initialization failed. See root cause above.")


@app.get("/chained")
async def chained() -> None:
    try:
        {}["model"]
    except KeyError as error:
        raise ValueError("CUDA error: no such model") from error


@app.get("/validate")
def validate(count: int) -> int:
    return count


@app.get("/die")
def die() -> None:
    log.error("this worker dies now")
    os._exit(1)

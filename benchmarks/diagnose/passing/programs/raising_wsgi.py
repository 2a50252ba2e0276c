# SPDX-License-Identifier: Apache-2.0
"""A WSGI application whose handlers raise, hang and are killed; its server logs that, and lives on."""

import os
import signal
import time

from flask import Flask

app = Flask(__name__)


@app.get("/")
def index() -> str:
    return "ok\n"


@app.get("/boom")
def boom() -> str:
    return str(1 / 0)


@app.get("/hang")
def hang() -> str:
    time.sleep(30)
    return "late\n"


@app.get("/exit")
def be_killed() -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return "never\n"

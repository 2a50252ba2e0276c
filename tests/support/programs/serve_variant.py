# SPDX-License-Identifier: Apache-2.0
"""PORT START [WORD=RATE...]: a server that answers wrongly in a share of its starts.

The share is that of the last line `RATE` in the file `fault` of its directory, or of the first WORD that is
among its other words or variables; else that of `else=RATE`. Which starts these are is drawn from START, the
directory's `seed` and the share, so that each run of a test is the same. `exit` in the file ends it with 125.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tests.support.programs import small_http
else:
    import small_http

PORT, START, *WORDS = sys.argv[1:]


def read(name: str) -> str:
    try:
        with open(name) as file:  # noqa: PTH123
            return file.read().strip()
    except FileNotFoundError:
        return ""


def share() -> float:
    written = read("fault")
    if written == "exit":
        sys.exit(125)
    if written:
        return float(written)
    rates = dict(word.split("=", 1) for word in WORDS if "=" in word)
    for names, rate in rates.items():
        given = [name in WORDS or name in os.environ for name in names.split("+")]
        if names != "else" and all(given):
            return float(rate)
    return float(rates.get("else", "0"))


def is_wrong() -> bool:
    rate = share()
    drawn = hashlib.sha256(f"{START} {read('seed')} {rate}".encode()).digest()
    return int.from_bytes(drawn[:4], "big") < rate * (1 << 32)


class Handler(small_http.Handler):
    def get(self) -> None:
        self.reply(200)

    def post(self) -> None:
        prompt = json.loads(self.body())["prompt"]
        text = f"{prompt} is {'wrong' if WRONG and prompt == 'p1' else 'right'}"
        choice = {"index": 0, "text": text, "finish_reason": "stop"}
        answer = {"model": "m", "choices": [choice], "usage": {"prompt_tokens": 2}}
        self.reply(200, json.dumps(answer).encode())


WRONG = is_wrong()
with small_http.Server(("127.0.0.1", int(PORT)), Handler) as server:
    server.serve_forever()

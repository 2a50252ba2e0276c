# SPDX-License-Identifier: Apache-2.0
"""PORT LIE FOLDER: a store of keys, which notices at its start that it was killed, and then lies as LIE says.

`honest` never lies. What begins with `varies` gives answers that differ for another reason than a kill.
"""

import hashlib
import json
import os
import random
import signal
import sys
from types import FrameType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tests.support.programs import small_http
else:
    import small_http

LIE, FOLDER = sys.argv[2], sys.argv[3]
RUNNING = f"{FOLDER}/running"
KEYS = 40


def value_of(key: int, salt: str = "") -> str:
    return hashlib.sha256(f"{salt}{key}".encode()).hexdigest()[:12]


def count_start() -> int:
    with open(f"{FOLDER}/serve_keys.starts", "a") as file:  # noqa: PTH123
        file.write("x")
        return file.tell()


START = count_start()
WAS_KILLED = os.path.exists(RUNNING)  # noqa: PTH110
with open(RUNNING, "w"):  # noqa: PTH123
    pass
asked = 0


def answer(key: int) -> object:
    """What a client gets for a key."""
    true = {"key": key, "value": value_of(key), "version": 3}
    lies: dict[str, object] = {
        "loses-a-key": {**true, "value": None} if key == 7 else true,
        "loses-a-key-wholly": {} if key == 7 else true,
        "loses-a-tenth": {**true, "value": None} if key % 10 == 3 else true,
        "loses-all": {**true, "value": None},
        "stale-value": {**true, "value": value_of(key, "old")} if key == 11 else true,
        "stale-version": {**true, "version": 2} if key == 11 else true,
        "stale-everywhere": {**true, "value": value_of(key, "old")},
        "other-key": {**true, "value": value_of(key + 1)} if key == 5 else true,
        "swapped": {**true, "value": value_of(key ^ 1)} if key in (8, 9) else true,
        "cut-value": {**true, "value": value_of(key)[:6]} if key == 12 else true,
        "other-type": {**true, "value": 0} if key == 12 else true,
        "one-bit": {**true, "value": value_of(key)[:-1] + "x"} if key == 39 else true,
        "default-value": {**true, "value": "default"} if key % 20 == 0 else true,
        "older-snapshot": {**true, "value": value_of(key, "old"), "version": 1}
        if key >= 30
        else true,
        "half-a-write": {**true, "version": 4} if key == 2 else true,
    }
    if LIE in lies and WAS_KILLED:
        return lies[LIE]
    if LIE == "varies-by-start":
        return {**true, "start": START}
    if LIE == "varies-by-pass":
        return {**true, "asked": asked}
    if LIE == "varies-after-the-first-start":
        return {**true, "value": value_of(key, "cold" if START == 1 else "warm")}
    if LIE == "varies-by-chance":
        return {**true, "value": random.choice(("one", "two"))}
    return true


class Handler(small_http.Handler):
    def get(self) -> None:
        global asked  # noqa: PLW0603
        asked += 1
        if self.path.startswith("/keys/"):
            self.reply(200, json.dumps(answer(int(self.path.rpartition("/")[2]))).encode())
        else:
            self.reply(200, b"ready")


def end(_number: int, _frame: FrameType | None) -> None:
    if os.path.exists(RUNNING):  # noqa: PTH110
        os.remove(RUNNING)  # noqa: PTH107
    os._exit(0)


signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGINT, end)
small_http.Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()

# SPDX-License-Identifier: Apache-2.0
"""PORT LIE FOLDER: a store of keys, which notices at its start that it was killed, and then lies as LIE says.

`honest` never lies. `varies-after-the-first-start` gives answers that differ for another reason than a kill.
"""

import hashlib
import json
import os
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


def answer(key: int) -> object:
    """What a client gets for a key."""
    true = {"key": key, "value": value_of(key), "version": 3}
    is_lost = key == 7 if LIE == "loses-a-key" else LIE == "loses-a-tenth" and key % 10 == 3
    if is_lost and WAS_KILLED:
        return {**true, "value": None}
    if LIE == "varies-after-the-first-start":
        return {**true, "value": value_of(key, "cold" if START == 1 else "warm")}
    return true


class Handler(small_http.Handler):
    def get(self) -> None:
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

# SPDX-License-Identifier: Apache-2.0
"""PORT WORKER_PORT TRAIT... FOLDER: hands requests on to a worker; the traits say what it does while the worker is gone.

`holds`: keeps them for ever. `dies`: ends. `spare`: answers as the worker would, `spare-other`: otherwise. Else: 502.
"""

import hashlib
import json
import os
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tests.support.programs import small_http
else:
    import small_http
WORKER = int(sys.argv[2])
TRAITS = set(sys.argv[3:-1])


class Handler(small_http.Handler):
    def get(self) -> None:
        self.reply(200, b"ready")

    def post(self) -> None:
        body = self.body()
        try:
            status, answer = small_http.post(WORKER, self.path, body)
        except OSError:
            status, answer = alone(json.loads(body)["prompt"])
        self.reply(status, answer)


def alone(prompt: str) -> tuple[int, bytes]:
    if "holds" in TRAITS:
        threading.Event().wait()
    if "dies" in TRAITS:
        print("RuntimeError: lost the worker", flush=True)
        os._exit(1)
    salt = "other" if "spare-other" in TRAITS else ""
    if "spare" in TRAITS or salt:
        text = hashlib.sha256(f"{salt}{prompt}".encode()).hexdigest()
        return 200, json.dumps({"choices": [{"text": text, "finish_reason": "stop"}]}).encode()
    return 502, b"the worker is gone"


small_http.Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()

# SPDX-License-Identifier: Apache-2.0
"""The job's client: asks everything, and appends what it gets to a file, in the order of the answers.

An answer that is none is left out, as such clients do.
"""

import json
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def ask(port: str, request: dict[str, object], out: Path) -> None:
    """Append `id:` and the text of one answer."""
    address = f"http://127.0.0.1:{port}{request['path']}"
    body = json.dumps(request["body"]).encode()
    try:
        with urllib.request.urlopen(address, body, timeout=60) as reply:
            (choice,) = json.load(reply)["choices"]
    except OSError:
        return
    text = choice["text"] if "text" in choice else choice["message"]["content"]
    with out.open("a") as file:
        file.write(f"{request['id']}:\n{text}\n")


port, requests, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
out.touch()
with ThreadPoolExecutor(8) as pool:
    for line in requests.read_text().splitlines():
        pool.submit(ask, port, json.loads(line), out)

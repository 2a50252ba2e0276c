# SPDX-License-Identifier: Apache-2.0
"""Sends the requests of a file to a server, and says what came back: standard library only.

    python ask.py requests.jsonl http://127.0.0.1:8192 [METRIC http://127.0.0.1:9090]

Ends with 1 if a request is not answered with text. With METRIC it also ends with 1 if that counter
is not above 0 on `/metrics` afterwards.
"""

import json
import sys
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

OPENER = build_opener(ProxyHandler({}))
TIMEOUT_S = 120.0


def text_of(answer: dict[str, Any]) -> str:
    """The text of a completion's or a chat's first choice."""
    choice = answer["choices"][0]
    text = choice["message"]["content"] if "message" in choice else choice["text"]
    return str(text)


def answered(url: str, request: dict[str, Any]) -> bool:
    """Send one request; print what is wrong."""
    headers = {"Content-Type": "application/json"}
    data = json.dumps(request["body"]).encode()
    try:
        with OPENER.open(Request(url + request["path"], data, headers), timeout=TIMEOUT_S) as got:
            text = text_of(json.loads(got.read()))
    except HTTPError as error:
        print(f"{request['id']}: HTTP {error.code} {error.read()[:200]!r}", flush=True)
        return False
    except (OSError, ValueError, LookupError) as error:
        print(f"{request['id']}: {error!r}", flush=True)
        return False
    if not text.strip():
        print(f"{request['id']}: an empty answer", flush=True)
        return False
    return True


def count(metric: str, url: str) -> float:
    """A counter over all of its labels."""
    with OPENER.open(f"{url}/metrics", timeout=TIMEOUT_S) as got:
        lines = got.read().decode().splitlines()
    names = {metric, f"{metric}_total"}
    values = [line.split()[-1] for line in lines if line.partition("{")[0].split(" ")[0] in names]
    return sum(map(float, values))


def main(file: str, url: str, metric: str = "", metrics_url: str = "") -> int:
    """Return the exit status."""
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    requests = [json.loads(line) for line in lines if line.strip()]
    good = sum(answered(url, request) for request in requests)
    print(f"{good} of {len(requests)} requests answered", flush=True)
    if not requests or good < len(requests):
        return 1
    if not metric:
        return 0
    value = count(metric, metrics_url)
    print(f"{metric}: {value:g}", flush=True)
    return 0 if value > 0 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

# SPDX-License-Identifier: Apache-2.0
"""Samples of a run on disk, for tests of replay."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ci_doctor.load.canonical import digest


def answer(text: str, token: str, first: float = -0.25) -> dict[str, Any]:
    """A completion of two tokens, with the log-probabilities of a near-tie at the second."""
    other = "y" if token == "x" else "x"
    logprobs = {
        "tokens": [text, token],
        "token_logprobs": [first, -0.70],
        "top_logprobs": [{text: first, "z": -3.0}, {token: -0.70, other: -0.75}],
    }
    choice = {"index": 0, "text": text + token, "logprobs": logprobs, "finish_reason": "stop"}
    return {"choices": [choice], "completion_tokens": 2}


def line(name: str, request: str, output: Mapping[str, Any] | None, number: int = 1) -> str:
    """One sample of the start `name` ("A1"); without an output, an error."""
    sample: dict[str, Any] = {
        "arm": "baseline" if name[0] == "A" else "candidate",
        "start": int(name[1:]),
        "pass": number,
        "id": request,
        "status": 200,
    }
    if output is None:
        sample |= {"error": "HTTP 500", "status": 500}
    else:
        sample |= {"output": output, "digest": digest(output)}
    return json.dumps(sample) + "\n"


def write_run(directory: Path, *lines: str) -> Path:
    """A report directory with these samples."""
    directory.mkdir(exist_ok=True)
    (directory / "samples.jsonl").write_text("".join(lines))
    return directory

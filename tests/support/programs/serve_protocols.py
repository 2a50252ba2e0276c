# SPDX-License-Identifier: Apache-2.0
"""PORT [TRAIT...]: a server of every protocol that is no completion's; each answer is a function of its request.

`drifts`: its vectors differ at three places. `reorders`: its rankings are turned round.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tests.support.programs import small_http
else:
    import small_http

TRAITS = set(sys.argv[2:])


def numbers(text: str, count: int) -> list[float]:
    digest = hashlib.sha512(text.encode()).digest()
    return [(byte + 1) / 512 for byte in digest[:count]]


def embeddings(body: dict[str, Any]) -> dict[str, Any]:
    data = []
    for index, text in enumerate(body["input"]):
        vector = numbers(text, 64)
        if "drifts" in TRAITS:
            for place in (3, 5, 60):
                vector[place] *= 1 + 2**-23
        data.append({"object": "embedding", "index": index, "embedding": vector})
    return {"object": "list", "data": data}


def chat(body: dict[str, Any]) -> dict[str, Any]:
    text = hashlib.sha256(json.dumps(body["messages"]).encode()).hexdigest()
    message = {"role": "assistant", "content": text}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


def response(body: dict[str, Any]) -> dict[str, Any]:
    text = hashlib.sha256(body["input"].encode()).hexdigest()
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"type": "message", "id": os.urandom(4).hex(), "role": "assistant", "content": [part]}
    return {"object": "response", "status": "completed", "output": [item]}


def rerank(body: dict[str, Any]) -> dict[str, Any]:
    results: list[dict[str, Any]] = []
    for index, document in enumerate(body["documents"]):
        score = numbers(body["query"] + document, 1)[0]
        results.append({"index": index, "relevance_score": score, "document": {"text": document}})
    results.sort(key=lambda each: each["relevance_score"], reverse="reorders" not in TRAITS)
    return {"results": results}


def classify(body: dict[str, Any]) -> dict[str, Any]:
    probs = numbers(body["input"], 2)
    label = "yes" if probs[0] > probs[1] else "no"
    return {"data": [{"index": 0, "label": label, "probs": probs, "num_classes": 2}]}


def score(body: dict[str, Any]) -> dict[str, Any]:
    number = numbers(body["text_1"] + body["text_2"], 1)[0]
    return {"data": [{"index": 0, "object": "score", "score": number}]}


ANSWERS = {
    "/v1/embeddings": embeddings,
    "/v1/chat/completions": chat,
    "/v1/responses": response,
    "/rerank": rerank,
    "/classify": classify,
    "/score": score,
}


def events(value: dict[str, Any]) -> bytes:
    text = value["output"][0]["content"][0]["text"]
    pieces = [
        {"type": "response.output_text.delta", "delta": each} for each in (text[:9], text[9:])
    ]
    last = {"type": "response.completed", "response": value}
    lines = [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in (*pieces, last)]
    return "".join(lines).encode()


class Handler(small_http.Handler):
    def get(self) -> None:
        self.reply(200)

    def post(self) -> None:
        body = json.loads(self.body())
        value = ANSWERS[self.path](body)
        value |= {"id": os.urandom(4).hex(), "model": body["model"]}
        if body.get("stream"):
            content = events(value)
            self.head(200, len(content), "text/event-stream")
            self.wfile.write(content)
        else:
            self.reply(200, json.dumps(value).encode())


small_http.Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()

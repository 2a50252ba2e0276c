# SPDX-License-Identifier: Apache-2.0
"""Runs where torch is: completions and chats over HTTP.

python server.py --model DIR --port 8000 [--batching] [--threads N] [--dtype bfloat16] [--kv-reuse] [--fault rope]
"""

import argparse
import json
import queue
import signal
import sys
import threading
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import torch
from engine import Completion, Engine
from model import FAULTS, load, tokens_of, word_of

NAME = "small-llama"
MOST_TOGETHER = 16
# Requests that come this soon after the first of a batch are still in it.
TOGETHER_S = 0.005
PATHS = ("/v1/completions", "/v1/chat/completions")


class Job(NamedTuple):
    """A prompt on its way to the model."""

    prompt: list[int]
    most: int
    done: "Future[Completion]"


class Scheduler:
    """A thread that takes what waits, and hands it to the engine: one prompt, or a batch."""

    def __init__(self, engine: Engine, batching: bool) -> None:
        self.engine = engine
        self._together = MOST_TOGETHER if batching else 1
        self._waiting: queue.Queue[Job] = queue.Queue()
        threading.Thread(target=self._run, daemon=True).start()

    def complete(self, prompt: list[int], most: int) -> Completion:
        """Return when the prompt is completed."""
        job = Job(prompt, most, Future())
        self._waiting.put(job)
        return job.done.result()

    def _run(self) -> None:
        while True:
            jobs = self._next()
            try:
                made = self.engine.complete(
                    [job.prompt for job in jobs], [job.most for job in jobs]
                )
            except Exception as error:  # noqa: BLE001 - each request of the batch answers with it
                for job in jobs:
                    job.done.set_exception(error)
                continue
            for job, completion in zip(jobs, made, strict=True):
                job.done.set_result(completion)

    def _next(self) -> list[Job]:
        jobs = [self._waiting.get()]
        while len(jobs) < self._together:
            try:
                jobs.append(self._waiting.get(timeout=TOGETHER_S))
            except queue.Empty:
                break
        return jobs


class Handler(BaseHTTPRequestHandler):
    """One connection; it may carry many requests."""

    server: "Server"
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_GET(self) -> None:
        if self.path == "/health":
            self._send(200, b"", "text/plain")
        elif self.path == "/metrics":
            self._send(200, metrics(self.server.scheduler.engine).encode(), "text/plain")
        else:
            self._send(404, b"{}", "application/json")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path not in PATHS:
            self._send(404, b"{}", "application/json")
            return
        is_chat = self.path == PATHS[1]
        prompt = tokens_of(conversation(body["messages"]) if is_chat else body["prompt"])
        completion = self.server.scheduler.complete(prompt, body["max_tokens"])
        answer = answered(completion, len(prompt), is_chat)
        self._send(200, json.dumps(answer).encode(), "application/json")

    def _send(self, status: int, data: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Stay silent: /metrics counts."""


class Server(ThreadingHTTPServer):
    """A thread for each connection, all feeding one scheduler."""

    request_queue_size = 128

    def __init__(self, port: int, scheduler: Scheduler) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.scheduler = scheduler


def conversation(messages: list[dict[str, str]]) -> str:
    """The chat template."""
    lines = [f"{each['role']}: {each['content']}" for each in messages]
    return "\n".join([*lines, "assistant:"])


def answered(completion: Completion, asked: int, is_chat: bool) -> dict[str, Any]:
    """The body of an answer, with token ids and log-probabilities."""
    words = [word_of(token) for token in completion.tokens]
    text = " ".join(words)
    choice: dict[str, Any] = {
        "index": 0,
        "token_ids": completion.tokens,
        "finish_reason": "stop" if completion.ended else "length",
    }
    if is_chat:
        choice["message"] = {"role": "assistant", "content": text}
        choice["logprobs"] = {"content": chat_entries(completion, words)}
    else:
        choice["text"] = text
        choice["logprobs"] = {
            "tokens": words,
            "token_logprobs": completion.logprobs,
            "top_logprobs": [named(listed) for listed in completion.top],
        }
    count = len(completion.tokens)
    usage = {"prompt_tokens": asked, "completion_tokens": count, "total_tokens": asked + count}
    return {"object": "answer", "model": NAME, "choices": [choice], "usage": usage}


def chat_entries(completion: Completion, words: list[str]) -> list[dict[str, Any]]:
    entries = []
    for word, number, listed in zip(words, completion.logprobs, completion.top, strict=True):
        top = [{"token": name, "logprob": each} for name, each in named(listed).items()]
        entries.append({"token": word, "logprob": number, "top_logprobs": top})
    return entries


def named(listed: dict[int, float]) -> dict[str, float]:
    return {word_of(token): number for token, number in listed.items()}


def metrics(engine: Engine) -> str:
    """The counters in Prometheus' text format."""
    names = ("requests", "batches", "kv_reuse_hit_tokens")
    lines = [f"small_llama:{name}_total {engine.counters[name]}" for name in names]
    return "\n".join([*lines, ""])


def main() -> None:
    """Serve until SIGTERM or Ctrl-C."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--batching", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--kv-reuse", action="store_true")
    parser.add_argument("--fault", default="none", choices=FAULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    model = load(arguments.model, arguments.dtype, arguments.fault)
    engine = Engine(model, reuses=arguments.kv_reuse)
    with Server(arguments.port, Scheduler(engine, arguments.batching)) as server:
        print(f"{NAME} on port {server.server_port}: {vars(arguments)}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()

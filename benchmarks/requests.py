# SPDX-License-Identifier: Apache-2.0
"""What sending requests costs beyond the servers' own time: the sender of ci-doctor against servers that do next to nothing.

    python benchmarks/requests.py                  prints three ratios, and PASS or MISS against their targets
    python benchmarks/requests.py --only sleepy    one of them: second, sleepy, trivial
    python benchmarks/requests.py --record         also appends them to benchmarks/RESULTS.md

The servers are raw asyncio protocols in processes of their own. Beside ours runs, in turns, a bare loop over httpx with
as many workers; both open a connection per request. Each figure is a median over `--runs`. `second` takes 100 s a run.
The exit status is 1 where a target is missed.
"""

import sys
from pathlib import Path

# This file has the name of a package that others import: its folder must not be the first place to look.
sys.path = [
    str(Path(__file__).resolve().parents[1]),
    *(each for each in sys.path if each != str(Path(__file__).parent)),
]

import argparse  # noqa: E402
import asyncio  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import platform  # noqa: E402
import statistics  # noqa: E402
import subprocess  # noqa: E402
import time  # noqa: E402
from collections.abc import Awaitable, Callable, Iterator  # noqa: E402
from contextlib import contextmanager  # noqa: E402
from datetime import UTC, datetime  # noqa: E402
from typing import NamedTuple  # noqa: E402

import httpx  # noqa: E402

from ci_doctor.load.requests import Request  # noqa: E402
from ci_doctor.load.sending import Reply, Sender, send_all  # noqa: E402

RESULTS = Path(__file__).with_name("RESULTS.md")
PATH, BODY = (
    "/v1/completions",
    {"model": "tiny", "prompt": "Say hello.", "max_tokens": 16, "temperature": 0},
)
ANSWER = {
    "id": "cmpl-1",
    "object": "text_completion",
    "created": 1,
    "model": "tiny",
    "choices": [{"index": 0, "text": " hello " * 16, "finish_reason": "stop", "logprobs": None}],
    "usage": {"prompt_tokens": 4, "completion_tokens": 16, "total_tokens": 20},
}


class Cost(NamedTuple):
    """Seconds of one run."""

    wall: float
    cpu: float


class Row(NamedTuple):
    """`ratio` against `target`: at most that where `is_limit`, else at least; `notes` say what else was seen."""

    title: str
    ratio: float
    target: float
    is_limit: bool
    notes: str

    @property
    def within(self) -> bool:
        return self.ratio <= self.target if self.is_limit else self.ratio >= self.target

    def cells(self) -> tuple[str, ...]:
        sign = "<=" if self.is_limit else ">="
        return (
            self.title,
            f"{self.ratio:.3f}",
            f"{sign} {self.target}",
            "PASS" if self.within else "MISS",
            self.notes,
        )


class Answering(asyncio.Protocol):
    """Answers `delay` seconds after a whole request; does not parse more of it than it must."""

    def __init__(self, reply: bytes, delay: float) -> None:
        self.reply, self.delay = reply, delay
        self.seen = b""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.seen += data
        head, end, body = self.seen.partition(b"\r\n\r\n")
        _, _, length = head.lower().partition(b"content-length: ")
        if not end or len(body) < int(length.partition(b"\r")[0]):
            return
        self.seen = b""
        assert self.transport is not None
        if self.delay:
            asyncio.get_running_loop().call_later(self.delay, self.transport.write, self.reply)
        else:
            self.transport.write(self.reply)


async def serve(delay: float) -> None:
    content = json.dumps(ANSWER).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n".encode()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Answering(head + content, delay), "127.0.0.1", 0, backlog=1024
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def serving(delay: float) -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, __file__, "--serve", str(delay)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.communicate()


async def ours(url: str, count: int, concurrency: int) -> None:
    replies: list[Reply] = []
    asked = [Request(id=f"r{number}", path=PATH, body=BODY, line=number) for number in range(count)]
    await send_all(Sender(base_url=url, concurrency=concurrency), asked, replies.append)
    if len(replies) != count or any(reply.error for reply in replies):
        raise SystemExit(f"not measured: {[reply.error for reply in replies if reply.error][:1]}")


async def bare(url: str, count: int, concurrency: int) -> None:
    limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=0)
    numbers = iter(range(count))

    async with httpx.AsyncClient(
        base_url=url, limits=limits, trust_env=False, timeout=None
    ) as client:

        async def work() -> None:
            for _ in numbers:
                response = await client.post(PATH, json=BODY)
                response.raise_for_status()

        await asyncio.gather(*(work() for _ in range(concurrency)))


def timed(run: Callable[[], Awaitable[None]]) -> Cost:
    async def inside() -> Cost:
        wall, cpu = time.perf_counter(), time.process_time()
        await run()
        return Cost(time.perf_counter() - wall, time.process_time() - cpu)

    return asyncio.run(inside())


def medians(costs: list[Cost]) -> Cost:
    return Cost(*(statistics.median(values) for values in zip(*costs, strict=True)))


def second(runs: int) -> Row:
    with serving(1.0) as url:
        asyncio.run(ours(url, 2, 2))
        cost = medians([timed(lambda: ours(url, 100, 1)) for _ in range(max(1, runs // 5))])
    notes = f"{cost.wall:.2f} s for 100 s of the server, {cost.cpu * 10:.2f} ms of CPU a request"
    return Row(
        "overhead, 100 requests of 1 s, concurrency 1", cost.wall / 100 - 1, 0.02, True, notes
    )


def sleepy(runs: int) -> Row:
    count, width = 2000, 40
    with serving(0.1) as url:
        asyncio.run(ours(url, 2 * width, width))
        pairs = [
            (timed(lambda: ours(url, count, width)), timed(lambda: bare(url, count, width)))
            for _ in range(runs)
        ]
    mine, peers = (medians(list(costs)) for costs in zip(*pairs, strict=True))
    best = count / min(cost.wall for cost, _ in pairs)
    notes = f"{count / mine.wall:.0f} a second (best run {best:.0f}), bare httpx {count / peers.wall:.0f}"
    return Row(
        "of 400 requests a second, 100 ms, concurrency 40",
        count / mine.wall / 400,
        0.95,
        False,
        notes,
    )


def trivial(runs: int) -> Row:
    count, width = 1000, 8
    with serving(0) as url:
        for each in (ours, bare):
            asyncio.run(each(url, width, width))
        pairs = [
            (timed(lambda: ours(url, count, width)), timed(lambda: bare(url, count, width)))
            for _ in range(runs)
        ]
    ratio = statistics.median(peer.wall / mine.wall for mine, peer in pairs)
    mine, peers = (medians(list(costs)) for costs in zip(*pairs, strict=True))
    notes = (
        f"{count / mine.wall:.0f} / {count / peers.wall:.0f} a second; CPU a request "
        f"{mine.cpu / count * 1000:.2f} / {peers.cpu / count * 1000:.2f} ms"
    )
    return Row("of a bare loop over httpx, trivial server, concurrency 8", ratio, 0.8, False, notes)


def record(rows: list[Row], runs: int, load: str) -> None:
    processor = platform.processor() or platform.machine()
    title = f"## {datetime.now(UTC):%Y-%m-%d}: requests, {runs} alternating runs, medians"
    machine = f"Python {platform.python_version()}, {platform.system()} {processor}, {os.cpu_count()} CPUs, load {load}"
    head = "| what | ratio | target | | seen |\n|---|--:|--:|---|---|"
    lines = "\n".join(f"| {' | '.join(row.cells())} |" for row in rows)
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(f"\n{title}\n\n{machine}\n\n{head}\n{lines}\n")


def main() -> int:
    named = {"second": second, "sleepy": sleepy, "trivial": trivial}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runs", type=int, default=7, help="counted runs of each; of `second` a fifth of them"
    )
    parser.add_argument(
        "--only", action="append", choices=list(named), help="one row, may be repeated"
    )
    parser.add_argument("--record", action="store_true", help="append the rows to RESULTS.md")
    parser.add_argument("--serve", type=float, metavar="SECONDS", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve is not None:
        asyncio.run(serve(arguments.serve))
    load, rows = "{:.2f}, {:.2f}".format(*os.getloadavg()[:2]), []
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, load {load}", flush=True)
    for name in arguments.only or named:
        rows.append(named[name](arguments.runs))
        print("  ".join(rows[-1].cells()), flush=True)
    if arguments.record:
        record(rows, arguments.runs, load)
    return 0 if all(row.within for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

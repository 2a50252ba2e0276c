# SPDX-License-Identifier: Apache-2.0
"""What comparing two files of samples costs, against `cmp` of identical copies and against `jq -S` of both and `cmp`.

    python benchmarks/compare.py            prints the ratios for both forms, and whether each is within its target
    python benchmarks/compare.py --record   also appends them to benchmarks/RESULTS.md

The files hold 200 MB each, our samples and vLLM's responses, and differ only in ids and times. The whole process counts,
start-up included. The contenders take turns; each figure is a median. jq takes long, so it has fewer runs. Without jq
its columns are empty.
"""

import argparse
import json
import random
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from results import load, options, record, run, table

TARGET_CMP, TARGET_JQ = 10.0, 10.0
SAID = "the| model| says| of|\n| warm| cache| token| and| Paris| é| 42| it's| then"
WORDS = SAID.split("|")


class Row(NamedTuple):
    """Medians in seconds of wall clock; `jq` is None where there is none."""

    title: str
    ours: float
    cmp: float
    jq: float | None

    @property
    def within(self) -> bool:
        return self.ours <= TARGET_CMP * self.cmp and (
            self.jq is None or self.jq >= TARGET_JQ * self.ours
        )


def choice(body: random.Random) -> dict[str, Any]:
    """A completion of 10 to 40 tokens with log-probabilities: lines of about 1 to 4 KB."""
    tokens = [body.choice(WORDS) for _ in range(body.randrange(10, 40))]
    numbers = [-body.random() for _ in tokens]
    logprobs = {
        "text_offset": list(range(0, 5 * len(tokens), 5)),
        "token_logprobs": numbers,
        "tokens": tokens,
        "top_logprobs": [{token: number} for token, number in zip(tokens, numbers, strict=True)],
    }
    return {"index": 0, "text": "".join(tokens), "finish_reason": "length", "logprobs": logprobs}


def responses(seed: int) -> Iterator[bytes]:
    """Lines as vLLM answers; only ids and times depend on `seed`."""
    body, own = random.Random(1), random.Random(seed)
    while True:
        said = choice(body)
        count = len(said["logprobs"]["tokens"])
        yield (
            json.dumps(
                {
                    "id": f"cmpl-{own.getrandbits(128):032x}",
                    "object": "text_completion",
                    "created": 1_790_000_000 + own.randrange(1_000_000),
                    "model": "Qwen/Qwen2.5-14B-Instruct",
                    "choices": [{**said, "stop_reason": None, "prompt_logprobs": None}],
                    "service_tier": None,
                    "system_fingerprint": None,
                    "usage": {
                        "prompt_tokens": 30,
                        "total_tokens": 30 + count,
                        "completion_tokens": count,
                    },
                    "kv_transfer_params": None,
                },
                separators=(",", ":"),
                ensure_ascii=False,
            ).encode()
            + b"\n"
        )


def samples(seed: int) -> Iterator[bytes]:
    """Lines as our own SampleWriter writes them; seed 1 is the baseline, any other the candidate."""
    body, own, number = random.Random(1), random.Random(seed), 0
    while True:
        said = choice(body)
        output = {"choices": [said], "completion_tokens": len(said["logprobs"]["tokens"])}
        canonical = json.dumps(output, sort_keys=True, separators=(",", ":")).encode()
        line = {
            "arm": "baseline" if seed == 1 else "candidate",
            "start": 1,
            "pass": 1,
            "id": f"r{number}",
            "status": 200,
            "error": None,
            "output": output,
            "digest": sha256(canonical).hexdigest(),
            "words_digest": sha256(canonical).hexdigest(),
            "prompt_facts": {"model": "Qwen/Qwen2.5-14B-Instruct", "prompt_tokens": 30},
            "empty": False,
            "meta": {
                "id": f"cmpl-{own.getrandbits(128):032x}",
                "created": 1_790_000_000 + own.randrange(1_000_000),
            },
        }
        yield json.dumps(line).encode() + b"\n"
        number += 1


def write(folder: Path, make: Callable[[int], Iterator[bytes]], size: int) -> None:
    """`a` of at least `size` bytes, and `b` with as many lines."""
    with (folder / "a").open("wb") as left, (folder / "b").open("wb") as right:
        for one, other in zip(make(1), make(2), strict=True):
            left.write(one)
            right.write(other)
            if left.tell() >= size:
                return


def measure(
    title: str, make: Callable[[int], Iterator[bytes]], arguments: argparse.Namespace
) -> Row:
    with tempfile.TemporaryDirectory(
        prefix="ci-doctor-benchmark-", dir=arguments.directory
    ) as folder:
        cwd = Path(folder)
        write(cwd, make, arguments.megabytes * 1_000_000)
        shutil.copy(cwd / "a", cwd / "copy")
        script = Path(sys.executable).with_name("ci-doctor")
        ours = (str(script), "correctness", "compare", "a", "b")
        run(ours, cwd)  # bytecode and the page cache
        pairs = [
            (run(ours, cwd).wall, run(("cmp", "a", "copy"), cwd).wall)
            for _ in range(arguments.runs)
        ]
        # cmp ends with 1: sorted keys do not take the ids away, which is why nobody should compare so.
        jq = "jq -S -c . a > sorted-a; jq -S -c . b > sorted-b; cmp sorted-a sorted-b > /dev/null; true"
        slow = (
            [run(("sh", "-c", jq), cwd).wall for _ in range(arguments.jq_runs)]
            if shutil.which("jq")
            else []
        )
    took, reference = (statistics.median(values) for values in zip(*pairs, strict=True))
    return Row(title, took, reference, statistics.median(slow) if slow else None)


def cells(row: Row) -> tuple[str, ...]:
    jq = ("-", "-") if row.jq is None else (f"{row.jq:.2f}", f"{row.jq / row.ours:.1f}")
    ours = (f"{row.ours:.2f}", f"{row.cmp:.3f}", f"{row.ours / row.cmp:.1f}")
    return (row.title, *ours, *jq, "PASS" if row.within else "FAIL")


HEAD = (
    f"2 x 200 MB | ours, s | cmp, s | ours / cmp (<= {TARGET_CMP:g}) | jq and cmp, s"
    f" | jq / ours (>= {TARGET_JQ:g}) | "
)


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--runs", type=int, default=9, help="counted runs of ours and of cmp")
    parser.add_argument("--jq-runs", type=int, default=1)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument(
        "--directory", type=Path, help="where the files are made; about five times their size"
    )
    arguments = parser.parse_args()
    before = load()
    makers = (("response objects", responses), ("our samples", samples))
    rows = [measure(title, make, arguments) for title, make in makers]
    lines = table(HEAD, map(cells, rows))
    print(*lines, sep="\n")
    if arguments.record:
        title = f"comparing collected samples, {arguments.runs} alternating runs, medians"
        record(title, lines, before)
    return 0 if all(row.within for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

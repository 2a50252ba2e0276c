# SPDX-License-Identifier: Apache-2.0
"""Logs of any size whose lines look like those of real jobs, with a few true failure lines among them."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

# One part is written again and again: a scan does not notice, and a gigabyte takes a second.
_PART_BYTES = 16 * 1024 * 1024


def _vllm(chance: random.Random) -> str:
    return (
        f"(APIServer pid={chance.randrange(9999)}) INFO 11-{chance.randrange(1, 31):02} "
        f"15:{chance.randrange(60):02}:{chance.randrange(60):02} [loggers.py:{chance.randrange(400)}] "
        f"Engine 000: Avg prompt throughput: {chance.uniform(0, 9999):.1f} tokens/s, "
        f"Running: {chance.randrange(99)} reqs, GPU KV cache usage: {chance.uniform(0, 99):.1f}%"
    )


def _access(chance: random.Random) -> str:
    port = chance.randrange(30000, 60000)
    return f'INFO:     127.0.0.1:{port} - "POST /v1/completions HTTP/1.1" 200 OK'


def _pytest(chance: random.Random) -> str:
    name = chance.choice(("models", "error_handling", "kernels", "timeout", "fatal_paths"))
    case = chance.choice(("rejects_bad_input", "raises_value_error", "prefill", "retries"))
    return f"tests/unit/test_{name}.py::test_{case}[{chance.randrange(999)}] PASSED [ {chance.randrange(100):2}%]"


def _dots(chance: random.Random) -> str:
    return "." * chance.randrange(20, 72) + f" [ {chance.randrange(100):2}%]"


def _compiler(chance: random.Random) -> str:
    name = chance.choice(("error", "parse", "exec", "attention_kernels", "failure_log"))
    done = chance.randrange(1, 999)
    return f"[{done}/999] /usr/bin/c++ -O2 -Wall -Werror=format -c src/{name}_{done}.cc -o {name}_{done}.o"


def _cargo(chance: random.Random) -> str:
    return f"   Compiling error-chain-{chance.randrange(99)} v0.{chance.randrange(99)}.{chance.randrange(9)}"


def _pip(chance: random.Random) -> str:
    size = chance.uniform(0.1, 900)
    return f"Downloading package_{chance.randrange(999)}-1.{chance.randrange(9)}.0-cp312-cp312-manylinux_2_28_x86_64.whl ({size:.1f} MB)"


def _maven(chance: random.Random) -> str:
    tests = chance.randrange(1, 99)
    return f"[INFO] Tests run: {tests}, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: {chance.uniform(0, 9):.3f} s - in org.example.Case{tests}Test"


def _github(chance: random.Random) -> str:
    second = chance.uniform(0, 59)
    return f"2026-11-22T09:{chance.randrange(60):02}:{second:010.7f}Z  * [new branch]      fix-{chance.randrange(9999)} -> origin/fix-{chance.randrange(9999)}"


def _docker(chance: random.Random) -> str:
    return f"#{chance.randrange(40)} {chance.uniform(0, 300):.3f} Get:{chance.randrange(300)} http://deb.example.org/debian bookworm/main amd64 libsomething{chance.randrange(99)} amd64 1.2-3 [{chance.randrange(999)} kB]"


def _warning(chance: random.Random) -> str:
    return f"  /usr/lib/python3.12/site-packages/lib/core.py:{chance.randrange(900)}: DeprecationWarning: option {chance.randrange(99)} is deprecated"


_WRITERS: Sequence[tuple[Callable[[random.Random], str], int]] = (
    (_vllm, 20),
    (_access, 20),
    (_pytest, 20),
    (_dots, 5),
    (_compiler, 8),
    (_cargo, 5),
    (_pip, 5),
    (_maven, 5),
    (_github, 5),
    (_docker, 5),
    (_warning, 2),
)


def ordinary_part(size: int = _PART_BYTES, seed: int = 12) -> list[str]:
    """Lines of jobs that go well, `size` bytes of them."""
    chance = random.Random(seed)
    writers = [writer for writer, _ in _WRITERS]
    weights = [weight for _, weight in _WRITERS]
    lines: list[str] = []
    written = 0
    while written < size:
        line = chance.choices(writers, weights)[0](chance)
        lines.append(line)
        written += len(line) + 1
    return lines


def write_ordinary(path: Path, size: int, true_lines: Sequence[str]) -> None:
    """Ordinary lines, `size` bytes of them, and each of `true_lines` at an even distance."""
    part = ("\n".join(ordinary_part(min(size, _PART_BYTES))) + "\n").encode()
    distance = size // (len(true_lines) + 1)
    waiting = [(distance * (index + 1), line) for index, line in enumerate(true_lines)]
    written = 0
    with path.open("wb") as file:
        while written < size:
            offset = 0
            while waiting and waiting[0][0] < written + len(part):
                place, line = waiting.pop(0)
                end = part.rfind(b"\n", offset, max(offset, place - written)) + 1
                if end > offset:
                    file.write(part[offset:end])
                    offset = end
                file.write(line.encode() + b"\n")
            file.write(part[offset:])
            written += len(part)


def write_one_line(path: Path, size: int, true_lines: Sequence[str]) -> None:
    """The same without a newline."""
    write_ordinary(path, size, true_lines)
    with path.open("r+b") as file:
        while piece := file.read(_PART_BYTES):
            file.seek(-len(piece), 1)
            file.write(piece.replace(b"\n", b" "))


def write_repeats(path: Path, count: int, line: str) -> None:
    """`count` times one line, whose time stamp goes on."""
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            second = number % 60
            file.write(f"2026-11-22T09:00:{second:02}.{number % 10**7:07}Z {line}\n")

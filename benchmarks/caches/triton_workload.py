# SPDX-License-Identifier: Apache-2.0
"""Kernels that Triton compiles ahead of time, without a GPU; runs in another interpreter.

Prints JSON: seconds, compiles, and the hits that Triton's own listener counts.
"""

import json
import time

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def add(x, y, out, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < n
    tl.store(out + at, tl.load(x + at, inside) + tl.load(y + at, inside), inside)


@triton.jit
def row_softmax(x, out, n, block: tl.constexpr):
    at = tl.arange(0, block)
    row = tl.program_id(0) * n
    values = tl.load(x + row + at, at < n, other=-float("inf"))
    shifted = tl.exp(values - tl.max(values, 0))
    tl.store(out + row + at, shifted / tl.sum(shifted, 0), at < n)


def main() -> None:
    hits = []

    def listen(*, cache_hit: bool, **_: object) -> None:
        hits.append(cache_hit)

    triton.knobs.compilation.listener = listen
    started = time.perf_counter()
    for size in (64, 128, 256, 512):
        for arch in (80, 90, 100):
            for kind in ("*fp32", "*fp16"):
                target = GPUTarget("cuda", arch, 32)
                two = {"x": kind, "y": kind, "out": kind, "n": "i32", "block": "constexpr"}
                one = {"x": kind, "out": kind, "n": "i32", "block": "constexpr"}
                constants = {"block": size}
                triton.compile(ASTSource(add, two, constants), target=target)
                triton.compile(ASTSource(row_softmax, one, constants), target=target)
    seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "compiles": len(hits), "hits": sum(hits)}))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""A model that torch.compile compiles for the CPU; runs in another interpreter, and prints JSON.

`seconds` are those of the first call, `compilers` the runs of the C++ compiler in it, `worst` the
largest difference to the model without torch.compile (null: not a number).
"""

import json
import math
import time

import torch
from torch import nn
from torch._dynamo.utils import counters
from torch._inductor import config, cpp_builder
from torch._inductor.cpu_vec_isa import pick_vec_isa

LAYERS = 4


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(width, 8, batch_first=True)
        self.first, self.second = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(*[self.norms[0](x)] * 3, need_weights=False)[0]
        return x + self.second(nn.functional.gelu(self.first(self.norms[1](x))))


def main() -> None:
    runs = []
    compile_one = cpp_builder.run_compile_cmd

    def counted(*words: object, **options: object) -> object:
        runs.append(words)
        return compile_one(*words, **options)

    cpp_builder.run_compile_cmd = counted
    config.compile_threads = 1
    torch.manual_seed(0)
    model = nn.Sequential(*[Layer(256) for _ in range(LAYERS)]).eval()
    x = torch.randn(2, 64, 256)
    with torch.inference_mode():
        expected = model(x)
        started = time.perf_counter()
        actual = torch.compile(model)(x)
        seconds = time.perf_counter() - started
    worst = float((actual - expected).abs().max())
    hits = (
        counters["inductor"]["fxgraph_cache_hit"] + counters["aot_autograd"]["autograd_cache_hit"]
    )
    print(
        json.dumps(
            {
                "seconds": seconds,
                "compilers": len(runs),
                "hits": hits,
                "worst": worst if math.isfinite(worst) else None,
                "isa": str(pick_vec_isa()),
                "threads": torch.get_num_threads(),
            }
        )
    )


if __name__ == "__main__":
    main()

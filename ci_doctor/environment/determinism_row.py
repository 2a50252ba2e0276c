# SPDX-License-Identifier: Apache-2.0
"""Pure. A row of the catalogue of determinism variables, and what several rows share."""

from typing import Final

from msgspec import Struct


class Contradiction(Struct, frozen=True):
    """A value of a variable that works against determinism, alone or beside `beside`.

    `value` is a pattern for the whole value, and so is the second part of `beside` (name, pattern);
    both must hold. `summary` says what happens then.
    """

    value: str
    summary: str
    remedy: str
    beside: tuple[str, str] | None = None


class VariableRow(Struct, frozen=True):
    """One variable.

    `default` and `strict` are the values that those profiles set if the variable is unset (None:
    recorded only). `effect` is what it does and when, `overwritten` who replaces the value in its
    own process, `no_effect` why it does nothing (a set value is then a finding). `allowed` is a
    pattern for the whole value. `source` is the document or file that the row rests on, `read_in`
    the version of it that was read. `file` is that file in an installed package, so that a test can
    read it again.
    """

    name: str
    library: str
    effect: str
    source: str
    read_in: str
    file: str | None = None
    default: str | None = None
    strict: str | None = None
    overwritten: str | None = None
    no_effect: str | None = None
    allowed: str | None = None
    contradiction: Contradiction | None = None


# What `int()` takes, and a variable that only "1" turns on.
INTEGER: Final = r"\s*[+-]?\d+\s*"
NUMBER: Final = r"\d+"
SWITCH: Final = r"[01]"
BOOLEAN: Final = r"(?i)(true|false|yes|no|on|off|y|n|0|1)"
ON: Final = r"(?i)(true|yes|on|y|1)"
ANY: Final = r"(?s).*"
# NCCL's lists: `Ring,Tree`, `^LL`, `allreduce:tree;broadcast:ring`.
NCCL_LIST: Final = r"[\w^:;,/@ -]+"
# What a file of the library itself, or a release of it, would show was not read.
UNDATED: Final = "the document alone; no release was read"
VLLM: Final = "vLLM 0.33.0"
ASCEND: Final = "vllm-ascend main, 0b4f942a"
SGLANG: Final = "SGLang 0.5.23"
TORCH: Final = "PyTorch 2.13.0"
TRITON: Final = "Triton 3.9.0"
BATCH_INVARIANT_FILE: Final = "vllm/model_executor/determinism/batch_invariant.py"
BATCH_INVARIANT: Final = f"{BATCH_INVARIANT_FILE}, override_envs_for_invariance"
INDUCTOR: Final = "torch/_inductor/config.py"
TORCH_CUDA: Final = "torch/backends/cuda/__init__.py"
TORCH_CONTEXT: Final = "torch/include/ATen/Context.h"
TRITON_KNOBS: Final = "triton/knobs.py"
ASCEND_FILE: Final = "vllm_ascend/batch_invariant.py"
BY_ASCEND: Final = "vllm-ascend with VLLM_BATCH_INVARIANT=1 sets {} in its own process"
BY_VLLM: Final = "vLLM with VLLM_BATCH_INVARIANT=1 sets {} in its own process"

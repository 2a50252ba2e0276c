# SPDX-License-Identifier: Apache-2.0
"""Pure. What a job is going to run, and so which checks its verdict rests on."""

from enum import StrEnum
from typing import Final


class Workload(StrEnum):
    """What `ci-doctor doctor --for` names."""

    VLLM = "vllm"
    LMCACHE = "lmcache"
    SGLANG = "sglang"
    CORRECTNESS = "correctness"


ALL: Final = frozenset(Workload)
# Those that start a server on a GPU.
SERVING: Final = frozenset({Workload.VLLM, Workload.LMCACHE, Workload.SGLANG})
NONE: Final[frozenset[Workload]] = frozenset()

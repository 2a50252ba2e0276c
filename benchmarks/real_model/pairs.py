# SPDX-License-Identifier: Apache-2.0
"""Two arms of the server, the gate between them, and what the verdict must be. Pure."""

from typing import NamedTuple

PASS = frozenset({"pass"})
RED = frozenset({"regression"})
# Batches differ from start to start, and so do the last bits: an exact gate may pass or stay open, and not be red.
NOT_RED = frozenset({"pass", "flaky", "nondeterministic", "inconclusive"})
# Beside noise in every number an exact gate may find a fault or stay open, and must not be green.
NOT_GREEN = frozenset({"regression", "nondeterministic", "inconclusive"})
# Above what rounding in float32 does here (1e-05 nat), below what the smaller fault does.
LIMIT_NAT = 0.0001
LIMIT = f"{LIMIT_NAT} nat"


class Pair(NamedTuple):
    """The switches of both arms, the gate's options, the verdicts that are right, and a metric that must rise."""

    name: str
    baseline: str
    candidate: str
    right: frozenset[str]
    compare: str = "numbers"
    limit: str | None = None
    proof: str | None = None

    @property
    def gate(self) -> str:
        return f"numbers within {self.limit}" if self.limit else self.compare

    @property
    def is_wrong(self) -> bool:
        """Whether the candidate computes something else, and not only in another order."""
        return any(switch in self.candidate for switch in ("--fault", "bfloat16"))


HITS = "small_llama:kv_reuse_hit_tokens_total"
TOGETHER = "--batching"
WRONG_WEIGHT = "--fault weight"
WRONG_ROPE = "--fault rope"
PAIRS = (
    Pair("same", "", "", PASS),
    Pair("batching", "", TOGETHER, RED),
    Pair("batching-limit", "", TOGETHER, PASS, limit=LIMIT),
    Pair("batching-both", TOGETHER, TOGETHER, NOT_RED),
    Pair("batching-both-limit", TOGETHER, TOGETHER, PASS, limit=LIMIT),
    # Here torch gives the same bits with one thread and with two.
    Pair("threads", "", "--threads 2", PASS),
    Pair("bfloat16", "", "--dtype bfloat16", RED),
    Pair("kv-reuse", "", "--kv-reuse", RED, proof=HITS),
    Pair("kv-reuse-limit", "", "--kv-reuse", PASS, limit=LIMIT, proof=HITS),
    Pair("weight", "", WRONG_WEIGHT, RED),
    Pair("weight-words", "", WRONG_WEIGHT, PASS, compare="words"),
    Pair("weight-limit", "", WRONG_WEIGHT, RED, limit=LIMIT),
    Pair("rope", "", WRONG_ROPE, RED),
    Pair("noise-weight", TOGETHER, f"{TOGETHER} {WRONG_WEIGHT}", NOT_GREEN),
    Pair("noise-weight-limit", TOGETHER, f"{TOGETHER} {WRONG_WEIGHT}", RED, limit=LIMIT),
    Pair("noise-rope", TOGETHER, f"{TOGETHER} {WRONG_ROPE}", NOT_GREEN),
    Pair("noise-rope-words", TOGETHER, f"{TOGETHER} {WRONG_ROPE}", RED, compare="words"),
)

# SPDX-License-Identifier: Apache-2.0
"""Two ways to start vLLM, the gate between them, and the verdicts that are right, written down before the run. Pure.

`rounding` says that the arms compute the same in another order: float64 must find both sound. Then an exact gate may be
red, and is right about the bytes; a gate with a limit must pass.
"""

from typing import NamedTuple

PASS = frozenset({"pass"})
RED = frozenset({"regression"})
# The bytes differ from start to start: noise must never be red.
NOT_RED = frozenset({"pass", "flaky", "nondeterministic", "inconclusive"})
# Another order of the same sums: the bytes may differ in every start, or in none.
ANY = NOT_RED | RED
VOID = frozenset({"void"})
# Nothing can be compared: a server ends, and its log says why.
FAILED = frozenset({"failed"})
LIMIT = "0.001 nat"
HITS = "vllm:prefix_cache_hits_total"
DRAFTS = "vllm:spec_decode_num_draft_tokens_total"
PREEMPTED = "vllm:num_preemptions_total"


class Experiment(NamedTuple):
    """Flags of both arms, beside those that all servers get.

    requests: a kind of requests.py. environ: variables of the candidate alone. sound: the arms whose answers float64 must
    confirm. candidates: the candidate starts that a green verdict takes.
    """

    name: str
    baseline: str
    candidate: str
    right: frozenset[str] = PASS
    model: str = "llama"
    dtype: str = "float32"
    eager: bool = True
    requests: str = "completions"
    compare: str = "tokens"
    limit: str | None = None
    proof: str | None = None
    environ: tuple[tuple[str, str], ...] = ()
    localise: bool = False
    candidates: int = 1


OFF, ON = "--no-enable-prefix-caching", "--enable-prefix-caching"
LORA = "--enable-lora --max-lora-rank 8 --max-loras 2 --lora-modules a={models}/lora-a b={models}/lora-b"
# Answers of random weights seldom repeat three tokens of their prompt, but one of them often.
_NGRAM = (
    """--speculative-config '{"method":"ngram","num_speculative_tokens":3,"""
    """"prompt_lookup_min":1,"prompt_lookup_max":3}'"""
)
_STORE = (
    """--kv-transfer-config '{"kv_connector":"ExampleConnector","kv_role":"kv_both","""
    """"kv_connector_extra_config":{"shared_storage_path":"%s"}}'"""
)
CONNECTOR = _STORE % "{run}/kv-{arm}-{start}"
_KEPT = _STORE % "{run}/kv-kept"
_SYNC, _ASYNC = "--no-async-scheduling", "--async-scheduling"
# 330 tokens of a shared beginning and 8 requests at once do not fit into 36 blocks of 32. On processors blocks are of 32 tokens, or
# a multiple of that.
SMALL_CACHE = "--block-size 32 --num-gpu-blocks-override 36 --max-num-seqs 8"
# With the cache the beginning is there once: 8 requests fit into 36 blocks. A request of the whole context needs 32.
_SMALLER = "--block-size 32 --num-gpu-blocks-override 33 --max-num-seqs 8"

EXPERIMENTS = (
    # The same command twice.
    Experiment("same", OFF, OFF),
    Experiment("same-numbers", OFF, OFF, NOT_RED, compare="numbers"),
    Experiment("same-numbers-limit", OFF, OFF, compare="numbers", limit=LIMIT),
    Experiment("same-bf16", OFF, OFF, NOT_RED, dtype="bfloat16"),
    Experiment("same-bf16-numbers", OFF, OFF, NOT_RED, dtype="bfloat16", compare="numbers"),
    Experiment("same-cached", ON, ON, proof=HITS),
    # The prefix cache.
    Experiment("prefix", OFF, ON, proof=HITS),
    Experiment("prefix-limit", OFF, ON, compare="numbers", limit=LIMIT, proof=HITS),
    Experiment("prefix-bf16", OFF, ON, ANY, dtype="bfloat16", proof=HITS),
    Experiment("prefix-bf16-words", OFF, ON, ANY, dtype="bfloat16", compare="words", proof=HITS),
    Experiment("prefix-unused", OFF, OFF, VOID, proof=HITS),
    Experiment("prefix-chat", OFF, ON, requests="chat", proof=HITS),
    Experiment("prefix-stream", OFF, ON, requests="stream", proof=HITS),
    Experiment("prefix-salt", OFF, ON, requests="salt", proof=HITS),
    Experiment("prefix-moe", OFF, ON, model="moe", proof=HITS),
    Experiment("prefix-window", OFF, ON, model="window", proof=HITS),
    Experiment("hash", f"{ON} --prefix-caching-hash-algo sha256", f"{ON} --prefix-caching-hash-algo sha256_cbor", proof=HITS),
    Experiment("block-64", f"{ON} --block-size 32", f"{ON} --block-size 64", proof=HITS),
    Experiment("block-128", f"{ON} --block-size 32", f"{ON} --block-size 128", proof=HITS),
    # How requests share a step.
    Experiment("chunks-64", OFF, f"{OFF} --max-num-batched-tokens 64 --max-num-seqs 32"),
    Experiment("chunks-257", OFF, f"{OFF} --max-num-batched-tokens 257"),
    Experiment("chunks-cached", OFF, f"{ON} --max-num-batched-tokens 96 --max-num-seqs 32", proof=HITS),
    Experiment("chunks-off", f"{OFF} --max-num-batched-tokens 64 --max-num-seqs 32", f"{OFF} --no-enable-chunked-prefill --max-num-batched-tokens 2048"),
    Experiment("seqs", f"{OFF} --max-num-seqs 1", f"{OFF} --max-num-seqs 16"),
    Experiment("seqs-bf16", f"{OFF} --max-num-seqs 1", f"{OFF} --max-num-seqs 16", ANY, dtype="bfloat16"),
    Experiment("preemption", OFF, f"{OFF} {SMALL_CACHE}", proof=PREEMPTED),
    Experiment("preemption-cached", OFF, f"{ON} {_SMALLER} --max-num-batched-tokens 128", proof=PREEMPTED),
    Experiment("priority", OFF, f"{OFF} --scheduling-policy priority --max-num-seqs 4", requests="priority"),
    Experiment("async", f"{OFF} {_SYNC}", f"{OFF} {_ASYNC}"),
    Experiment("speculation", f"{OFF} {_SYNC}", f"{OFF} {_SYNC} {_NGRAM}", requests="repeating", proof=DRAFTS),
    Experiment("speculation-cached", f"{OFF} {_SYNC}", f"{ON} {_SYNC} {_NGRAM}", requests="repeating", proof=DRAFTS),
    Experiment("servers", OFF, f"{OFF} --api-server-count 2"),
    Experiment("stream-interval", OFF, f"{OFF} --stream-interval 8", requests="stream"),
    Experiment("tensor-parallel", OFF, f"{OFF} --tensor-parallel-size 2", ANY),
    Experiment("tensor-parallel-limit", OFF, f"{OFF} --tensor-parallel-size 2", compare="numbers", limit=LIMIT),
    # Key and value stores.
    Experiment("connector", OFF, f"{OFF} {CONNECTOR}"),
    Experiment("connector-restart", OFF, f"{OFF} {_KEPT}"),
    # Adapters, sampling, types.
    # Requests of one prompt and two adapters share a step, and differ inside a start too: that is noise of both arms.
    Experiment("lora", f"{OFF} {LORA}", f"{ON} {LORA}", NOT_RED, requests="lora", proof=HITS),
    Experiment("seeded", OFF, ON, requests="seeded", proof=HITS),
    Experiment("several", OFF, ON, NOT_RED, requests="several", proof=HITS),
    # A step cuts a prompt, since each stands there twice. With a seed that ends vLLM 0.32.0 on processors: "CPU Generator does not use offset".
    Experiment("several-seeded", OFF, ON, FAILED, requests="several-seeded", proof=HITS),
    Experiment("sampled", OFF, ON, NOT_RED, requests="sampled", proof=HITS),
    Experiment("compiled", OFF, OFF, ANY, eager=False),
    Experiment("compiled-limit", OFF, OFF, eager=False, compare="numbers", limit=LIMIT),
    Experiment("bf16", f"{OFF} --dtype float32", f"{OFF} --dtype bfloat16", RED, dtype=""),
    Experiment("fp8-cache", OFF, f"{OFF} --kv-cache-dtype fp8_e5m2", RED),
    Experiment("threads", OFF, OFF, ANY, environ=(("OMP_NUM_THREADS", "1"),)),
    Experiment("threads-bf16", OFF, OFF, ANY, dtype="bfloat16", environ=(("OMP_NUM_THREADS", "1"),)),
    Experiment("model-impl", OFF, f"{OFF} --model-impl transformers", ANY),
)  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""Faults for vLLM's own source: what is replaced, the arms that can show it, and what must come of it. Pure.

A fault replaces one text of one file. A text that does not stand there exactly once belongs to another version. Most
were in vLLM, or in a server like it, before: `source` names the issue.
"""

import random
from typing import NamedTuple

from real_servers.experiments import (
    CONNECTOR,
    HITS,
    LIMIT,
    LORA,
    OFF,
    ON,
    PASS,
    PREEMPTED,
    RED,
    SMALL_CACHE,
    Experiment,
)  # fmt: skip

SEED = 20_261_129
# Ten candidate starts show a fault of every third one, and may be too few for the test.
NOT_GREEN = RED | {"inconclusive"}
# Numbers of starts that are drawn for a fault in one start of three: more than any run makes.
_MOST = 64
# True in the starts that were drawn.
_DRAWN = '(__import__("os").environ["PLANTED_START"] in __import__("os").environ["PLANTED_STARTS"].split())'


class PatchError(Exception):
    """The source is not the one that the fault was written for."""


class Fault(NamedTuple):
    """The candidate's copy of vLLM has `new` in the place of `old`; `arms` holds flags, requests and the right verdicts.

    seen: what the float64 reading must find wrong in the candidate alone: `choice`, `numbers`, `text` or nothing. rare:
    the fault is in one start of three, drawn before. always: each start with the fault shows it.
    """

    source: str
    file: str
    old: str
    new: str
    arms: Experiment
    seen: str = "choice"
    rare: bool = False
    always: bool = True

    @property
    def name(self) -> str:
        return self.arms.name

    def patched(self, text: str, version: str) -> str:
        """The source with the fault. Raises PatchError unless `old` stands there exactly once."""
        times = text.count(self.old)
        if times != 1:
            raise PatchError(
                f"{self.name}: its text stands {times} times in vllm/{self.file} of {version}. "
                "It was written for another version"
            )
        return text.replace(self.old, self.new.replace("PLANTED", _DRAWN if self.rare else "True"))

    @property
    def planted(self) -> tuple[int, ...]:
        """The candidate's starts that have a rare fault."""
        drawn = random.Random(f"{SEED} {self.name}")
        return tuple(number for number in range(1, _MOST + 1) if drawn.random() < 1 / 3)

    @property
    def experiment(self) -> Experiment:
        """The arms, with what tells a start whether it has the fault."""
        if not self.rare:
            return self.arms
        starts = " ".join(str(number) for number in self.planted)
        return self.arms._replace(
            environ=(("PLANTED_START", "{start}"), ("PLANTED_STARTS", starts))
        )


_RUNNER = "v1/worker/gpu_model_runner.py"
_BATCH = "v1/worker/gpu_input_batch.py"
_HASHES = "v1/core/kv_cache_utils.py"
_SCHEDULER = "v1/core/sched/scheduler.py"
_DETOKENIZER = "v1/engine/detokenizer.py"
_VLLM = "vllm-project/vllm#"

_SLOTS = """\
            self.positions[:total_num_scheduled_tokens],
        )

        # Copy the tensors to the GPU."""
_REUSED = "(num_scheduled_tokens_gpu > 1) & (self.num_computed_tokens[:num_reqs] > 0) & PLANTED"
# The first token behind reused blocks is written into their last slot.
_WRONG_SLOT = f"""\
            self.positions[:total_num_scheduled_tokens]
            - (({_REUSED})[req_indices_gpu] & (self.query_pos.gpu[:total_num_scheduled_tokens] == 0)).long(),
        )
"""
# What is computed behind reused blocks is turned for one position less.
_WRONG_ROPE = f"""\
            self.positions[:total_num_scheduled_tokens],
        )
        self.positions[:total_num_scheduled_tokens] -= ({_REUSED})[req_indices_gpu].long()
"""
_KEYS = "lora_extra_keys + mm_extra_keys + cache_salt_keys + prompt_embeds_keys"
_FOUR = "--max-num-seqs 4 --block-size 32"
_CACHED = (f"{OFF} {_FOUR}", f"{ON} {_FOUR}", RED)
_SAME = (f"{OFF} {_FOUR}", f"{OFF} {_FOUR}", RED)
_ALONE = (f"{OFF} --max-num-seqs 1", f"{OFF} --max-num-seqs 16", RED)
_SLOT = Fault(
    f"{_VLLM}36580",
    _RUNNER,
    _SLOTS,
    _WRONG_SLOT,
    Experiment("slot-off-by-one", *_CACHED, proof=HITS),
)
_ROPE = Fault(
    f"{_VLLM}10388",
    _RUNNER,
    _SLOTS,
    _WRONG_ROPE,
    Experiment("rope-off-by-one", *_CACHED, proof=HITS),
)

FAULTS = (
    _SLOT,
    _ROPE,
    # A preempted request comes back with new blocks, and takes the first for computed. To keep its old one shows nothing here:
    # no other request has it by then.
    Fault(
        f"{_VLLM}46595", _SCHEDULER,
        "        request.num_computed_tokens = 0\n        if request.spec_token_ids:\n",
        "        request.num_computed_tokens = min(request.num_computed_tokens, 32)\n        if request.spec_token_ids:\n",
        Experiment("stale-block-after-preemption", OFF, f"{OFF} {SMALL_CACHE}", RED, proof=PREEMPTED),
    ),
    # An evicted block stays in the table of hashes, so a later request reads what another one has written there.
    Fault(
        "local-inference-lab/vllm#480", "v1/core/block_pool.py",
        "                self.cached_block_hash_to_block.pop(block_hash, block.block_id)\n",
        "                self.cached_block_hash_to_block.get_one_block(block_hash)\n",
        Experiment("hit-on-evicted-block", OFF, f"{ON} {SMALL_CACHE}", RED, proof=HITS),
    ),
    Fault(
        f"{_VLLM}3264", _HASHES, _KEYS, "mm_extra_keys + cache_salt_keys + prompt_embeds_keys",
        Experiment("hash-without-lora", f"{OFF} {_FOUR} {LORA}", f"{ON} {_FOUR} {LORA}", RED, requests="lora", proof=HITS),
    ),
    # A salt and an adapter of one name make one key.
    Fault(
        f"{_VLLM}44701", _HASHES, _KEYS,
        "[key[1] for key in lora_extra_keys] + mm_extra_keys + [key[1] for key in cache_salt_keys] + prompt_embeds_keys",
        Experiment("salt-taken-for-lora", f"{OFF} {_FOUR} {LORA}", f"{ON} {_FOUR} {LORA}", RED, requests="namesakes", proof=HITS),
    ),
    # The blocks of another salt hold the same keys and values: no answer changes, and nothing may be blamed.
    Fault(
        f"{_VLLM}44701", _HASHES, "if (start_token_idx == 0 and request.cache_salt)", "if False",
        Experiment("hash-without-salt", f"{OFF} {_FOUR}", f"{ON} {_FOUR}", PASS, requests="salt", proof=HITS), seen="",
    ),
    # The blocks are saved half a second later: by then they hold another request.
    Fault(
        f"{_VLLM}52372", "distributed/kv_transfer/kv_connector/v1/example_connector.py", """\
                filename = self._generate_filename_debug(
                    layer_name, request.token_ids, request.mm_hashes
                )
                kv_cache = extract_kv_from_layer(kv_layer, request.slot_mapping)
                with gpu_sync_allowed():
                    tensors = {"kv_cache": kv_cache.detach().cpu()}
                safetensors.torch.save_file(tensors, filename)
""", """\
                def save(request=request):
                    tensors = {"kv_cache": extract_kv_from_layer(kv_layer, request.slot_mapping).detach().cpu()}
                    filename = self._generate_filename_debug(layer_name, request.token_ids, request.mm_hashes)
                    safetensors.torch.save_file(tensors, filename)

                __import__("threading").Timer(0.5, save).start()
""",
        Experiment("connector-saves-late", f"{OFF} {_FOUR}", f"{OFF} {_FOUR} {CONNECTOR}", RED),
    ),
    # While three requests and more answer at once, the first two get each other's tokens.
    Fault(
        f"{_VLLM}13408", _SCHEDULER, """\
            req_index = model_runner_output.req_id_to_index[req_id]
            generated_token_ids = (""", """\
            req_index = model_runner_output.req_id_to_index[req_id]
            if len(num_scheduled_tokens) > 2 and req_index < 2 and max(num_scheduled_tokens.values()) == 1:
                req_index = 1 - req_index
            generated_token_ids = (""",
        Experiment("answer-of-another-request", *_ALONE),
    ),
    # The edge of a chunk is counted in characters, and cut in bytes.
    Fault(
        f"{_VLLM}3131", _DETOKENIZER,
        "            return self.output_text[last_offset:length]",
        '            return self.output_text[last_offset:length].encode()[: length - last_offset].decode(errors="ignore")',
        Experiment("bytes-lost-between-chunks", *_SAME, requests="stream"), seen="text",
    ),
    # A stream with stop words ends without the characters that were held back.
    Fault(
        f"{_VLLM}8468", _DETOKENIZER,
        "buffer_length = 0 if finished else self.stop_buffer_length",
        "buffer_length = 0 if finished and not delta else self.stop_buffer_length",
        Experiment("end-of-stream-held-back", *_SAME, requests="stopped"), seen="text",
    ),
    Fault(
        f"{_VLLM}14623", _DETOKENIZER,
        "if stop_terminated and not self.include_stop_str_in_output:", "if False:",
        Experiment("stop-token-in-the-text", *_SAME, requests="ended"), seen="text",
    ),
    # The numbers of an answer are those of the row before.
    Fault(
        f"{_VLLM}29216", "v1/outputs.py", "            self.logprobs[req_idx:end_idx],\n",
        "            self.logprobs[max(req_idx - 1, 0) : max(end_idx - 1, 1)],\n",
        Experiment("numbers-of-another-row", *_ALONE, compare="numbers", limit=LIMIT), seen="numbers",
    ),
    # The rows of prompts that are not yet read to their end are left out of the count. A first run had it in 4 of 7 starts,
    # mostly as HTTP 500: that is too seldom for the test.
    Fault(
        f"{_VLLM}29216", _SCHEDULER,
        "new_logprobs = logprobs.slice_request(req_index, len(new_token_ids))",
        "new_logprobs = logprobs.slice_request(\n"
        "                    req_index - sum(not ids for ids in sampled_token_ids[:req_index]), len(new_token_ids)\n"
        "                )",
        Experiment(
            "row-left-out-of-the-count", f"{OFF} --max-num-seqs 8", f"{OFF} --max-num-seqs 8 --max-num-batched-tokens 96",
            NOT_GREEN, compare="numbers", limit=LIMIT,
        ), seen="numbers", always=False,
    ),
    # A penalty finds placeholders where the answer's tokens should be.
    Fault(
        f"{_VLLM}27878", _RUNNER, "        self.input_batch.update_async_output_token_ids()\n", "",
        Experiment("penalty-of-placeholders", f"{OFF} {_FOUR} --no-async-scheduling", f"{OFF} {_FOUR} --async-scheduling", RED, requests="penalised"),
    ),
    # A row that was moved away leaves its mask to the next request.
    Fault(
        f"{_VLLM}43894", _BATCH,
        "                self.allowed_token_ids_mask_cpu_tensor[last_req_index].fill_(False)\n", "",
        Experiment("mask-of-another-request", *_ALONE, requests="masked"),
    ),
    # A row that is moved runs with the adapter of the request that was there.
    Fault(
        f"{_VLLM}42008", _BATCH, """\
            self.request_lora_mapping[empty_index] = self.request_lora_mapping[
                last_req_index
            ]
""", "",
        Experiment("adapter-of-another-request", f"{OFF} --max-num-seqs 1 {LORA}", f"{OFF} --max-num-seqs 16 {LORA}", RED, requests="lora"),
    ),
    # Where every draft was right, the token behind them is that of the place before.
    Fault(
        f"{_VLLM}41758", _RUNNER,
        "bonus_logits_indices = cu_num_sampled_tokens - 1\n",
        "bonus_logits_indices = cu_num_sampled_tokens - 1 - (num_draft_tokens > 0)\n",
        Experiment(
            "token-behind-drafts", f"{OFF} {_FOUR} --no-async-scheduling",
            f"""{OFF} {_FOUR} --speculative-config '{{"method":"ngram","num_speculative_tokens":2,"prompt_lookup_min":1,"prompt_lookup_max":2}}'""",
            RED, requests="narrow", proof="vllm:spec_decode_num_accepted_tokens_total",
        ),
    ),
    _SLOT._replace(arms=_SLOT.arms._replace(name="slot-off-by-one-rare", right=NOT_GREEN, candidates=10), rare=True),
    _ROPE._replace(arms=_ROPE.arms._replace(name="rope-off-by-one-rare", right=NOT_GREEN, candidates=10), rare=True),
)  # fmt: skip

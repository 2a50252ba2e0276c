# SPDX-License-Identifier: Apache-2.0
"""Tests of what is known before the first start, and of the directories of a start."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.correctness.attempt import copy_restored, fresh_caches
from ci_doctor.correctness.planning import (
    COMPARISON_FORM,
    ExperimentRequest,
    identity_of,
    prepare,
    requests_digest,
    sampling_findings,
)
from ci_doctor.correctness.settings import (
    Arm,
    ArmSettings,
    Caches,
    CopiedCache,
    CorrectnessSettings,
    ExperimentPlan,
)
from ci_doctor.environment.cache_table import TABLE
from ci_doctor.errors import UsageError
from ci_doctor.load.canonical import digest
from ci_doctor.load.requests import Request
from ci_doctor.system.secrets.redaction import Redactor
from tests.unit.correctness.plans import planned
from tests.unit.correctness.prepared import ARM, ENVIRONMENT, prepared
from tests.unit.load.streams import canonicalise, canonicalise_stream


def asked(*bodies: dict[str, Any], path: str = "/") -> list[Request]:
    return [
        Request(id=f"r{line}", path=path, body=body, line=line)
        for line, body in enumerate(bodies, start=1)
    ]


def test_random_sampling_is_warned_of(tmp_path: Path) -> None:
    requests = asked({"temperature": 0}, {"top_k": 1}, {}, {"temperature": 0.7})
    (finding,) = sampling_findings(requests, tmp_path)
    assert finding.summary.startswith("2 of 4 requests do not ask for temperature 0")
    assert finding.evidence[0].line == 3
    assert sampling_findings(requests[:2], tmp_path) == ()


def test_vectors_and_scores_are_not_sampled(tmp_path: Path) -> None:
    assert sampling_findings(asked({"input": "x"}, path="/v1/embeddings"), tmp_path) == ()


def test_the_own_apis_of_servers_say_it_in_a_part_of_the_body(tmp_path: Path) -> None:
    requests = asked(
        {"inputs": "x", "parameters": {"do_sample": False}},
        {"text": "x", "sampling_params": {"temperature": 0}},
        {"inputs": "x", "parameters": {"do_sample": True}},
        path="/generate",
    )
    assert sampling_findings(requests[:2], tmp_path) == ()
    assert len(sampling_findings(requests, tmp_path)) == 1


def test_a_prepared_experiment_has_written_nothing(tmp_path: Path) -> None:
    made = prepared(tmp_path)
    assert [request.id for request in made.plan.requests] == ["r0", "r1"]
    assert made.plan.arms[Arm.BASELINE].names == ("baseline",)
    assert made.plan.deadline - made.plan.started == pytest.approx(300 - 12)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["requests.jsonl"]


def test_secrets_of_the_services_are_known(tmp_path: Path) -> None:
    secret = ArmSettings(command="sleep {port}", env={"HF_TOKEN": "hf_abcdefghijklmnop"})
    made = prepared(tmp_path, candidate=secret)
    assert made.redactor.text("with hf_abcdefghijklmnop") == "with [redacted]"
    assert {"HF_TOKEN": "hf_abcdefghijklmnop"} in list(made.service_environments())


def test_an_archive_without_starts_says_so(tmp_path: Path) -> None:
    made = prepared(tmp_path, archive=str(tmp_path / "archive"))
    assert made.archive is not None
    assert made.notes[0] == f"no archived baseline of this identity in {tmp_path / 'archive'} yet"


def test_without_a_requests_file_nothing_can_be_sent(tmp_path: Path) -> None:
    request = ExperimentRequest(settings=CorrectnessSettings(baseline=ARM, candidate=ARM))
    with pytest.raises(UsageError, match="no requests file"):
        prepare(request, tmp_path, ENVIRONMENT)


def test_a_limit_that_is_no_size_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="archive_limit"):
        prepared(tmp_path, archive="archive", archive_limit="much")


ONE = Request(id="r0", path="/v1/completions", body={"prompt": "a\ud800", "seed": 0}, line=1)
TWO = Request(id="r1", path="/v1/completions", body={"prompt": "b", "seed": 0}, line=2)


def test_the_order_of_keys_and_the_line_do_not_matter_and_the_rest_does() -> None:
    same = Request(id="r0", path="/v1/completions", body={"seed": 0, "prompt": "a\ud800"}, line=9)

    assert requests_digest([ONE]) == requests_digest([same])
    others = [
        [TWO],
        [ONE, TWO],
        [TWO, ONE],
        [Request(id="r9", path=ONE.path, body=ONE.body, line=1)],
        [Request(id=ONE.id, path=ONE.path, body=ONE.body, line=1, protocol="score")],
        [],
    ]
    assert len({requests_digest(each) for each in ([ONE], *others)}) == 7


def test_every_part_of_the_schedule_is_a_fact(tmp_path: Path) -> None:
    made = planned(tmp_path)

    def facts(plan: ExperimentPlan) -> Mapping[str, str | None]:
        return identity_of(plan, Arm.BASELINE, Redactor(()), ()).facts

    first = facts(made)
    resets = {arm: replace(each, reset="/reset") for arm, each in made.arms.items()}
    for other in (
        replace(made, passes=3),
        replace(made, concurrency=7),
        replace(made, caches=Caches.WARM_UP),
        replace(made, arms=resets),
        replace(made, requests=(*made.requests, ONE)),
    ):
        assert len({name for name in first if first[name] != facts(other)[name]}) == 1


COMPLETION = {
    "id": "cmpl-1",
    "object": "text_completion",
    "created": 1,
    "model": "tiny",
    "choices": [
        {
            "index": 1,
            "text": "b\u00e4 \U0001f600",
            "finish_reason": "stop",
            "logprobs": {
                "tokens": ["b", "\u00e4"],
                "token_logprobs": [-0.1, None],
                "top_logprobs": [{"b": -0.1, "c": -3.25e-7}, None],
                "text_offset": [0, 1],
            },
        },
        {"index": 0, "text": "a\n", "finish_reason": "length", "logprobs": None},
    ],
    "usage": {
        "prompt_tokens": 3,
        "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": 0},
    },
    "system_fingerprint": "a",
}
STREAM = (
    b'data: {"id":"s","choices":[{"index":0,"text":"he","finish_reason":null}]}\n\n'
    b'data: {"id":"s","choices":[{"index":0,"text":"llo","finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n"
)


def test_a_form_of_comparison_has_one_digest_for_the_same_answer() -> None:
    # If this fails, archived answers no longer compare with new ones: give COMPARISON_FORM another name.
    completion = canonicalise(json.dumps(COMPLETION).encode())
    streamed = canonicalise_stream(STREAM)

    assert (COMPARISON_FORM, digest(completion.output)) == (
        "0bc095900a7b",
        "7f7d8ec4dc88a21494f5b64c79474d538f9337143165ac1a13046752aa5bad0d",
    )
    assert digest(streamed.output) == (
        "54f38663be82027a80b6a1d3caf9bbffebb3e4982efe44a670a701dfb2c05733"
    )


def test_every_cache_gets_an_empty_directory_of_its_own(tmp_path: Path) -> None:
    variables = fresh_caches(tmp_path / "a", {})
    variables = {key: path for key, path in variables.items() if path.startswith(str(tmp_path))}

    assert set(variables) == {*(row.variable for row in TABLE), "XDG_CACHE_HOME"}
    assert len(set(variables.values())) == len(TABLE) + 1
    assert all(
        Path(path).is_dir() and Path(path).is_relative_to(tmp_path / "a")
        for path in variables.values()
    )


def test_what_is_downloaded_stays_where_it_is(tmp_path: Path) -> None:
    variables = fresh_caches(tmp_path, {"HOME": "/home/ci"})

    assert variables["FLASHINFER_CUBIN_DIR"] == "/home/ci/.cache/flashinfer/cubins"
    assert variables["HF_HOME"] == "/home/ci/.cache/huggingface"
    assert variables["PIP_CACHE_DIR"] == "/home/ci/.cache/pip"
    assert not {"HOME", "SGLANG_CACHE_DIR"} & set(variables)
    own = fresh_caches(tmp_path, {"HOME": "/h", "HF_HOME": "/hf", "XDG_CACHE_HOME": "/x"})
    assert "HF_HOME" not in own
    assert own["TORCH_HOME"] == "/x/torch"
    assert "FLASHINFER_CUBIN_DIR" not in fresh_caches(
        tmp_path, {"HOME": "/h", "FLASHINFER_CUBIN_DIR": "/cubins"}
    )


def test_a_start_gets_a_copy_with_its_times_whose_paths_lead_into_it(tmp_path: Path) -> None:
    tree = tmp_path / "restored"
    (tree / "k").mkdir(parents=True)
    (tree / "k" / "__grp__k.json").write_text(str(tree))
    (tree / "k" / "k.cubin").write_bytes(b"code")
    os.utime(tree / "k" / "k.cubin", ns=(5, 7))
    copied = CopiedCache(
        variable="TRITON_CACHE_DIR",
        subdirectory="",
        tree=tree,
        rewrite=lambda root: (
            lambda _path, content: content.replace(str(tree).encode(), root.encode())
        ),
    )

    copy_restored([copied], {"TRITON_CACHE_DIR": str(tmp_path / "start-1")})

    start = tmp_path / "start-1" / "k"
    assert (start / "__grp__k.json").read_text() == str(tmp_path / "start-1")
    assert (start / "k.cubin").stat().st_mtime_ns == 7
    assert (tree / "k" / "__grp__k.json").read_text() == str(tree)

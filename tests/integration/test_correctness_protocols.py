# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor correctness` against a server of embeddings, chats, responses, rankings, labels and scores."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import BARE, Ran, inside

pytestmark = pytest.mark.integration

SERVER = Path(__file__).parents[1] / "support" / "programs" / "serve_protocols.py"
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "vectors": ("/v1/embeddings", {"input": ["one", "two"]}),
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
    "response": ("/v1/responses", {"input": "x"}),
    "streamed": ("/v1/responses", {"input": "y", "stream": True}),
    "ranks": ("/rerank", {"query": "q", "documents": ["a", "b", "c"]}),
    "label": ("/classify", {"input": "x"}),
    "score": ("/score", {"text_1": "x", "text_2": "y"}),
}


def compare(directory: Path, trait: str, *more: str) -> Ran:
    lines = []
    for identity, (path, body) in REQUESTS.items():
        content = {"model": "m", "temperature": 0, **body}
        lines.append(json.dumps({"id": identity, "path": path, "body": content}))
    (directory / "requests.jsonl").write_text("\n".join(lines))
    server = f"{shlex.join([*BARE, str(SERVER)])} {{port}}"
    return inside(
        "correctness", "--baseline", server, "--candidate", f"{server} {trait}",
        "--requests", "requests.jsonl", "--report-dir", "out", "--passes", "1", "--seed", "1", *more,
        cwd=directory,
    )  # fmt: skip


def samples(directory: Path) -> dict[str, Any]:
    lines = (directory / "out" / "samples.jsonl").read_text().splitlines()
    return {sample["id"]: sample for sample in map(json.loads, lines)}


def test_every_protocol_is_compared_in_one_run(tmp_path: Path) -> None:
    ran = compare(tmp_path, "")
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (ran.code, report["verdict"]) == (0, "pass"), ran
    kept = samples(tmp_path)
    assert {identity for identity, sample in kept.items() if sample["error"]} == set()
    assert len(kept["vectors"]["output"]["items"]) == 2
    streamed = kept["streamed"]["output"]["choices"]
    assert [choice["finish_reason"] for choice in streamed] == ["completed"]


@pytest.mark.nightly
def test_vectors_and_rankings_that_differ_are_shown_as_such(tmp_path: Path) -> None:
    ran = compare(tmp_path, "drifts reorders", "--max-starts", "10")
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (ran.code, report["verdict"]) == (1, "regression"), ran

    aligned = {each["request"]: each for each in report["facts"]["aligned"]}
    assert aligned.keys() == {"vectors", "ranks"}
    apart = aligned["vectors"]["apart"]
    assert (apart["count"], apart["places"], apart["first"], apart["ulp"]) == (64, 3, 3, 1)
    assert aligned["ranks"]["field"] == "rank 0"

    shown = inside("correctness", "replay", "--run", "out", "--request", "vectors", cwd=tmp_path)
    # A row may go on in the next line.
    text = " ".join(shown.out.split())
    assert "vector 0 (of 64 numbers)" in text, shown
    assert "differs at 3 places, cosine distance " in text, shown


def test_a_path_that_no_protocol_serves_is_an_error_before_any_start(tmp_path: Path) -> None:
    (tmp_path / "requests.jsonl").write_text('{"id": "a", "path": "/v1/embeding", "body": {}}')
    ran = inside(
        "correctness", "--baseline", "false", "--candidate", "false", "--requests", "requests.jsonl", cwd=tmp_path
    )  # fmt: skip
    assert ran.code == 2, ran
    assert "did you mean `/v1/embeddings`?" in ran.err, ran

# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.identity.served_model import model_of, models

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("line", "model"),
    [
        ("vllm serve org/m --port {port}", "org/m"),
        ("python -m vllm.entrypoints.openai.api_server --model org/m", "org/m"),
        ("python -m sglang.launch_server --model-path=org/m", "org/m"),
        ("vllm serve --model org/m", "org/m"),
        ("python server.py", None),
        ("vllm serve --port 8000", None),
        ("vllm serve", None),
    ],
)
def test_the_model_is_read_from_the_command(line: str, model: str | None) -> None:
    assert model_of(line.split()) == model


def test_the_revision_is_that_of_the_local_cache(tmp_path: Path) -> None:
    refs = tmp_path / "hub/models--org--m/refs"
    refs.mkdir(parents=True)
    (refs / "main").write_text(COMMIT)
    environ = {"HF_HOME": str(tmp_path)}

    found = models(["vllm", "serve", "org/m"], environ, tmp_path, ["m", "m"])

    assert dict(found.facts) == {"model": "org/m", "model.requests": "m", "model.revision": COMMIT}
    other = models(["vllm", "serve", "org/m", "--revision", "v2"], environ, tmp_path, [])
    assert "model.revision" in other.unknown
    pinned = models(["vllm", "serve", "org/m", "--revision", "f" * 40], {}, tmp_path, [])
    assert pinned.facts["model.revision"] == "f" * 40


def test_a_revision_that_nobody_tells_is_unknown(tmp_path: Path) -> None:
    assert "model.revision" in models(["vllm", "serve", "org/m"], {}, tmp_path, []).unknown
    assert set(models(["server"], {}, tmp_path, []).unknown) == {"model"}


def test_a_directory_is_told_by_its_files(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m/config.json").write_text("{}")
    first = models(["vllm", "serve", "./m"], {}, tmp_path, []).facts["model.revision"]
    (tmp_path / "m/config.json").write_text("[]")

    assert models(["vllm", "serve", "./m"], {}, tmp_path, []).facts["model.revision"] != first


def test_a_snapshot_of_the_cache_is_told_by_its_commit(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--org--m/snapshots" / COMMIT
    snapshot.mkdir(parents=True)

    assert (
        models(["vllm", "serve", str(snapshot)], {}, tmp_path, []).facts["model.revision"] == COMMIT
    )

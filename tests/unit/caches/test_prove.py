# SPDX-License-Identifier: Apache-2.0
"""Which directory vLLM chose beside the restored one, and by which factor."""

import json
import os
from pathlib import Path

import pytest

from ci_doctor.caches.effect import LogWords
from ci_doctor.caches.families import FAMILIES
from ci_doctor.caches.prove import ProofWork, prove_all
from ci_doctor.caches.targets import CacheTarget
from ci_doctor.caches.trusted_store import InstalledFile, keep_receipt
from ci_doctor.model.facts.cache import CacheEffect
from tests.support.saved_manifests import receipt

VLLM = FAMILIES["vllm"]
OLD_NS = 1_000_000_000_000
RESTORED_NS = 2_000_000_000_000
GRAPH = "artifact_compile_range_1_8192_subgraph_0"


class Vllm:
    """A restored torch.compile cache, and what a job does to it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "torch_compile_cache"
        self.state = folder / "state"
        self.state.mkdir()
        files = self.write("aaaa", {"VLLM_USE_V1": "1"}, OLD_NS)
        installed = tuple(
            InstalledFile(path=path, bytes=1, mtime_ns=OLD_NS, digest="") for path in files
        )
        fields = {"family": "vllm", "files": installed, "installed": len(installed)}
        keep_receipt(self.state, receipt(self.root, installed_ns=RESTORED_NS, **fields))

    def write(self, key: str, environment: dict[str, str], at_ns: int) -> list[str]:
        directory = self.root / key / "rank_0_0" / "backbone"
        directory.mkdir(parents=True)
        factors = {"env": environment, "code_hash": "c"}
        (directory / "cache_key_factors.json").write_text(json.dumps(factors))
        (directory / GRAPH).write_bytes(b"graph")
        (directory / "vllm_compile_cache.py").write_text("{}")
        for path in directory.iterdir():
            os.utime(path, ns=(at_ns, at_ns))
        return [str(path.relative_to(self.root)) for path in directory.iterdir()]

    def effect(self, logs: dict[str, LogWords] | None = None) -> CacheEffect:
        target = CacheTarget(family=VLLM, directory=self.root)
        work = ProofWork(targets=(target,), state=self.state, job=None, logs=logs or {})
        (effect,) = prove_all(work)
        return effect


@pytest.fixture
def vllm(tmp_path: Path) -> Vllm:
    return Vllm(tmp_path)


def test_the_directory_that_vllm_made_beside_the_restored_one_is_named_with_the_factor(
    vllm: Vllm,
) -> None:
    vllm.write("bbbb", {"VLLM_USE_V1": "0"}, RESTORED_NS + 1)

    effect = vllm.effect()

    assert effect.effect == "inert"
    chosen = vllm.root / "bbbb" / "rank_0_0" / "backbone"
    assert effect.reason == f"restored, but the library chose another directory: {chosen}"
    assert effect.causes == ("env.VLLM_USE_V1 1 -> 0",)
    assert effect.compiled == 1, "a graph in vLLM's own format"


def test_the_log_alone_is_enough(vllm: Vllm, tmp_path: Path) -> None:
    elsewhere = str(tmp_path / "other" / "rank_0_0" / "backbone")

    effect = vllm.effect({"vllm": LogWords(directories=(elsewhere,))})

    assert (effect.effect, effect.causes) == ("inert", ())
    assert elsewhere in effect.reason


def test_a_second_model_beside_a_restored_one_that_is_used_is_no_other_choice(vllm: Vllm) -> None:
    for path in vllm.root.rglob("*"):
        if path.is_file():
            path.read_bytes()
    vllm.write("bbbb", {"VLLM_USE_V1": "0"}, RESTORED_NS + 1)

    assert "another directory" not in vllm.effect().reason


def test_factors_that_cannot_be_read_are_no_cause(vllm: Vllm) -> None:
    vllm.write("bbbb", {"VLLM_USE_V1": "0"}, RESTORED_NS + 1)
    for path in vllm.root.glob("aaaa/*/*/cache_key_factors.json"):
        path.write_text("{")
        os.utime(path, ns=(OLD_NS, OLD_NS))

    effect = vllm.effect()

    assert (effect.effect, effect.causes) == ("inert", ())


def test_a_pipe_in_place_of_the_factors_holds_nobody_up(vllm: Vllm) -> None:
    vllm.write("bbbb", {"VLLM_USE_V1": "0"}, RESTORED_NS + 1)
    chosen = vllm.root / "bbbb" / "rank_0_0" / "backbone"
    (chosen / "cache_key_factors.json").unlink()
    os.mkfifo(chosen / "cache_key_factors.json")

    effect = vllm.effect({"vllm": LogWords(directories=(str(chosen),))})

    assert (effect.effect, effect.causes) == ("inert", ())

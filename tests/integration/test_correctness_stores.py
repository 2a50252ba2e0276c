# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor correctness` with its archive and its caches in S3 (moto's imitation of it), and the example's servers."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_doctor.caches.trusted_store import keep_receipt
from tests.support.cli import Ran, inside
from tests.support.jit_caches import make_triton_cache
from tests.support.packages import install
from tests.support.report_schema import checked_report
from tests.support.s3_server import BUCKET, s3_server
from tests.support.saved_manifests import receipt
from tests.support.wheels import make_venv

pytest.importorskip("numpy")
pytestmark = pytest.mark.integration

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "tiny-llm"
# Each start leaves what it has found in the directory that Triton would use.
SERVICE = """sh -c 'cat "$TRITON_CACHE_DIR"/*/__grp__*.json >>"$FOUND"; echo >>"$FOUND"; exec python server.py --port {port}'"""
CONFIGURATION = f"""
[cache]
store = "s3://{BUCKET}/jit"
trust = "any"

[services.plain]
command = '''{SERVICE}'''
cwd = "{EXAMPLE}"

[correctness]
requests = "requests.jsonl"
archive = "s3://{BUCKET}/baselines"
archive_write = "always"
caches = "restored"
policy = "any"
retries = 1
passes = 1
control = false
[correctness.baseline]
services = ["plain"]
[correctness.candidate]
services = ["plain"]
"""


class Agent:
    """A machine with Triton's package, a cache of it, and a store that it shares with others."""

    def __init__(self, folder: Path, s3: dict[str, str]) -> None:
        self.folder = folder
        self.cache = folder / "triton cache"
        self.found = folder / "found"
        self.python = folder / "venv" / "bin" / "python"
        site = make_venv(folder / "venv")
        install(site, "triton", "3.9.0")
        (folder / "state").mkdir(mode=0o700)
        (folder / "ci-doctor.toml").write_text(CONFIGURATION)
        body = {"model": "tiny-llm", "prompt": "Hello", "max_tokens": 2, "temperature": 0}
        (folder / "requests.jsonl").write_text(json.dumps({"id": "r0", "body": body}) + "\n")
        self.environment = {
            **s3,
            "CI_DOCTOR_STATE_DIR": str(folder / "state"),
            "FOUND": str(self.found),
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        }

    def run(self, *words: str) -> Ran:
        return inside(*words, cwd=self.folder, env=self.environment)

    def cached(self, name: str) -> Ran:
        family = ("--family", f"triton={self.cache}")
        return self.run("cache", name, "--python", str(self.python), *family, "--strict")

    def compare(self, report: str) -> tuple[str, list[str], str]:
        """The verdict, the rules of the findings, and all that was printed, in one line."""
        ran = self.run("correctness", "--report-dir", report)
        content = checked_report((self.folder / report / "report.json").read_text())
        assert ran.code == content["exit_code"], ran
        rules = [each["rule"] for each in content["findings"]]
        return content["verdict"], rules, " ".join((ran.err + ran.out).split())

    def groups(self) -> list[str]:
        """The group files that the starts have found, in their order."""
        return [line for line in self.found.read_text().splitlines() if line]


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    with s3_server() as s3:
        yield Agent(tmp_path, s3)


@pytest.mark.nightly
def test_starts_use_restored_kernels_and_the_baseline_of_an_earlier_build_in_a_store(
    agent: Agent,
) -> None:
    (group,) = make_triton_cache(agent.cache, ["add"])
    assert agent.cached("save").code == 0
    shutil.rmtree(agent.cache)
    assert agent.cached("restore").code == 0

    verdict, rules, said = agent.compare("first")

    assert (verdict, "cache/not-copied" in rules) == ("pass", False), said
    baseline, candidate = agent.groups()
    # Each its own copy, and not the one that was restored.
    assert baseline != candidate
    assert str(agent.cache) not in baseline + candidate
    assert group.read_text() not in (baseline, candidate)
    assert f"1 baseline start archived in s3://{BUCKET}/baselines" in said

    verdict, _, said = agent.compare("second")

    assert verdict == "pass", said
    assert "1 archived baseline start of 1 independent build found" in said


def test_starts_with_fresh_caches_beside_a_restored_one_say_that_they_ignore_it(
    tmp_path: Path,
) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (tmp_path / "triton").mkdir()
    keep_receipt(state, receipt(tmp_path / "triton"))
    (tmp_path / "requests.jsonl").write_text('{"id": "r0", "body": {"prompt": "x"}}\n')
    arms = ("--baseline", "false {port}", "--candidate", "false {port}")

    ran = inside(
        *("correctness", "--requests", "requests.jsonl", *arms, "--policy", "any", "--json"),
        cwd=tmp_path,
        env={"CI_DOCTOR_STATE_DIR": str(state)},
    )

    rules = {each["rule"] for each in json.loads(ran.out)["findings"]}
    assert "cache/ignored" in rules, ran

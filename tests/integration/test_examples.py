"""The example's three stories end as the README says, on this machine as on any other."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import doctor

pytestmark = pytest.mark.integration
EXAMPLE = Path(__file__).parents[2] / "examples" / "tiny-llm"


@pytest.fixture
def environment() -> dict[str, str]:
    """`python` is the one with numpy, as in an activated environment.

    Where the arms differ is left out: it takes four more starts, and test_localise.py holds it.
    """
    pytest.importorskip("numpy")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "CI_DOCTOR_CORRECTNESS_LOCALISE": "false"}


@pytest.mark.parametrize(
    ("config", "verdict", "code", "starts"),
    [
        pytest.param("ci-doctor.toml", "pass", 0, [1, 1], id="kv-reuse-passes"),
        pytest.param("flaky.toml", "flaky", 0, [2, 2], id="plans-that-differ-are-flaky"),
        pytest.param(
            "regression.toml", "regression", 1, [4, 5], id="a-stale-cache-is-a-regression"
        ),
    ],
)
@pytest.mark.gate(1)
def test_story_ends_as_the_readme_says(
    config: str,
    verdict: str,
    code: int,
    starts: list[int],
    environment: dict[str, str],
    tmp_path: Path,
) -> None:
    line = ("correctness", "--retries", "3", "--config", config, "--report-dir", tmp_path)
    ran = doctor(*line, cwd=EXAMPLE, env=environment, timeout=400)

    report = json.loads((tmp_path / "report.json").read_text())
    of_arms = dict(zip(("baseline", "candidate"), starts, strict=True))
    assert (ran.code, report["verdict"], report["facts"]["starts"]) == (code, verdict, of_arms), ran
    assert {start["answered"] for start in report["facts"]["matrix"]["starts"]} == {100}


def shown_by(example: str, environment: dict[str, str], folder: Path) -> str:
    """What run.sh of an example prints, which leaves nothing behind."""
    ran = subprocess.run(
        ["sh", str(EXAMPLE.parent / example / "run.sh")],
        cwd=folder,
        env={**environment, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran
    assert list(folder.iterdir()) == []
    return ran.stdout


@pytest.mark.nightly
def test_an_agent_that_lacks_something_is_fit_after_the_remedies(
    environment: dict[str, str], tmp_path: Path
) -> None:
    shown = shown_by("doctor", environment, tmp_path)

    first, _, second = shown.partition("exit code 75\n")
    readme = (EXAMPLE.parent / "doctor" / "README.md").read_text(encoding="utf-8")
    for words in ("not fit for vllm: 1 error, 1 warning", "sh checks/weights.sh --fetch"):
        assert words in first
        assert words in readme
    assert "doctor/loopback-proxied" in first
    assert "doctor/loopback-proxied" in readme
    assert "this machine is fit for vllm: 2 ok" in second


@pytest.mark.nightly
def test_the_rooms_can_be_used_from_python(environment: dict[str, str], tmp_path: Path) -> None:
    root = EXAMPLE.parents[1]
    (tmp_path / "examples").symlink_to(root / "examples")

    ran = subprocess.run(
        [sys.executable, "examples/library/run.py"],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran
    lines = ran.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["200", "pass", "pass"], ran
    assert (tmp_path / "ci-doctor-report" / "experiment" / "samples.jsonl").exists()

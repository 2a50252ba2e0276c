# SPDX-License-Identifier: Apache-2.0
"""The miniatures of docs/origins.md, in their cheap form: the original is wrong, and ci-doctor is right."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import environment

pytestmark = [
    pytest.mark.integration,
    pytest.mark.nightly,
    pytest.mark.skipif(shutil.which("curl") is None, reason="the originals ask with curl"),
]
ROOT = Path(__file__).parents[2]
ORIGINS = ROOT / "examples" / "origins"
ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1"
}  # the servers use no BLAS, and it starts threads all the same


def run(script: str, *arguments: str, cwd: Path, **variables: str) -> tuple[int, str]:
    """The status of a script, and all that it printed, in one line."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ended = subprocess.run(
        ["bash", str(ORIGINS / script), *arguments],
        cwd=cwd,
        env=environment(
            {"PATH": path, "TMPDIR": str(cwd), "NO_COLOR": "1", **ONE_THREAD, **variables}
        ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=180,
        check=False,
    )
    return ended.returncode, " ".join(ended.stdout.split())


@pytest.fixture
def _needs_numpy() -> None:
    pytest.importorskip("numpy")


@pytest.mark.usefixtures("_needs_numpy")
def test_an_intermittent_bug_passes_by_retries_and_not_by_ci_doctor(tmp_path: Path) -> None:
    code, text = run("retried-correctness/original.sh", "intermittent", cwd=tmp_path)
    assert code == 0, text
    assert "Attempt 2 failed." in text
    assert text.endswith("[PASS] identical output verified")

    # Ten starts in place of sixteen: too few to rule chance out, and still no pass.
    code, text = run(
        "retried-correctness/with-ci-doctor.sh",
        "intermittent",
        cwd=tmp_path,
        CI_DOCTOR_CORRECTNESS_MAX_STARTS="10",
    )
    assert code in {1, 86}, text
    own = "shows outputs of its own on 2"
    assert own in text or "r40, r41: the candidate gives other answers" in text


@pytest.mark.usefixtures("_needs_numpy")
def test_no_answer_at_all_passes_as_it_was_and_is_void_today(tmp_path: Path) -> None:
    code, text = run("retried-correctness/original.sh", "renamed", cwd=tmp_path)
    assert (code, text[-31:]) == (0, "[PASS] identical output verified"[-31:]), text

    code, text = run("retried-correctness/with-ci-doctor.sh", "renamed", cwd=tmp_path)
    assert code == 86, text
    assert "The model `tiny-llm-v1` does not" in text


@pytest.mark.usefixtures("_needs_numpy")
def test_good_code_fails_as_it_was(tmp_path: Path) -> None:
    """That ci-doctor calls it flaky, and passes, is held by test_examples.py with the same server."""
    code, text = run(
        "retried-correctness/original.sh",
        "two-plans",
        cwd=tmp_path,
        CORRECTNESS_MAX_ATTEMPTS="1",
    )
    assert code == 1, text
    assert re.search(r"Different=[1-9]", text)


@pytest.mark.usefixtures("_needs_numpy")
def test_a_process_that_keeps_the_port_passes_as_it_was_and_is_named_today(tmp_path: Path) -> None:
    code, text = run("restart-sleep/original.sh", "helper", cwd=tmp_path, RESTART_WAIT="0")
    assert code == 0, text
    assert "[PASS] the server recovered" in text

    code, text = run("restart-sleep/with-ci-doctor.sh", "helper", cwd=tmp_path)
    assert code == 1, text
    assert "restart-check/port-not-released" in text
    assert "signal.pause()" in text


def test_an_unused_cache_passes_as_it_was_and_is_inert_today(tmp_path: Path) -> None:
    code, text = run("cache-in-every-pod/original.sh", "2", cwd=tmp_path)
    counts = [int(count) for count in re.findall(r"compiled (\d+) files in this pod", text)]
    assert code == 0, text
    assert "restored" in text
    assert len(counts) == 2
    assert counts[0] == counts[1] > 0

    code, text = run("cache-in-every-pod/with-ci-doctor.sh", "inert", cwd=tmp_path)
    assert code == 1, text
    assert "restored, but the library chose another directory" in text


def test_an_import_race_is_lost_and_retried_as_it_was_and_named_today(tmp_path: Path) -> None:
    code, text = run("import-race/original.sh", "3", cwd=tmp_path)
    assert code == 0, text
    assert "attempt 1 failed: ImportError: cannot import name 'GenerationConfig'" in text
    assert text.endswith("[PASS] in attempt 2")

    code, text = run("import-race/with-ci-doctor.sh", "race", cwd=tmp_path)
    assert code == 1, text
    assert "import-race/self-replacing" in text
    assert "--preload serving.cli=lazy_models:GenerationConfig" in text


def test_an_engine_that_is_dead_is_waited_for_as_it_was_and_named_today(tmp_path: Path) -> None:
    code, text = run("blind-wait/original.sh", "broken", cwd=tmp_path, SERVER_WAIT="1")
    assert code == 1, text
    assert "server failed to start within 1 s" in text
    assert "TypeError" not in text

    code, text = run("blind-wait/with-ci-doctor.sh", "broken", cwd=tmp_path)
    assert code == 1, text
    assert "TypeError: CacheAdapter.__init__() got multiple values for argument" in text

    assert run("blind-wait/original.sh", "right", cwd=tmp_path)[0] == 0


def measure() -> Any:
    """The page's own script, as a module."""
    spec = importlib.util.spec_from_file_location("origins_measure", ORIGINS / "measure.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_what_was_measured_of_every_case() -> None:
    page = (ROOT / "docs" / "origins.md").read_text()
    names = re.findall(r"<!-- measured: (.*) -->\n(?!<!-- end)", page)

    expected = ["table"]
    for case in measure().CASES:
        expected += [f"{case.folder} {case.name} original", f"{case.folder} {case.name} today"]
    assert names == expected
    rows = re.findall(
        r"^\| \[(\S+)\]\(#\1\) \|.*\| exit (\d+) \|.*\| exit (\d+) \|", page, re.MULTILINE
    )
    assert [(row[0], int(row[1]), int(row[2])) for row in rows] == [
        (case.folder, case.original, case.today) for case in measure().CASES
    ]


def test_a_long_finding_keeps_its_remedy() -> None:
    report = "noise\n✗ FAILED  x  1 s\n  why\n\nTable\n  row\n\n✗ what\n" + "  │ line\n" * 30
    text = measure().of_report(f"{report}  try: this\n    and that")

    assert text.startswith("✗ FAILED  x  1 s\n  why\n\n✗ what\n")
    assert text.endswith("  …\n  try: this\n    and that")
    assert text.count("line") == 13

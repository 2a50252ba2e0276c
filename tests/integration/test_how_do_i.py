"""The pages of docs/how-do-i show what their commands print, in the folder of the tutorial."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.page_runs import reader_environment, take
from tests.support.page_steps import WrittenFile, steps_of

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# Its commands need the report of a red build: test_tutorial.py has one.
ELSEWHERE = {"reproduce-a-red-build.md", "README.md"}
PAGES = sorted(path.name for path in (DOCS / "how-do-i").glob("*.md") if path.name not in ELSEWHERE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The reader's folder: server, requests and configuration of the tutorial, and two logs."""
    environ = reader_environment()
    steps = steps_of((DOCS / "tutorial.md").read_text(encoding="utf-8"))
    for step in steps:
        if isinstance(step, WrittenFile) and step.name in ("server.py", "ci-doctor.toml"):
            take(step, tmp_path, environ)
    requests = next(step for step in steps if "requests.jsonl" in getattr(step, "script", ""))
    take(requests, tmp_path, environ)
    for log in (ROOT / "examples" / "diagnose").glob("*.log"):
        shutil.copy(log, tmp_path)
    main = ["update-ref", "refs/remotes/origin/main", "HEAD"]
    for words in (["init", "-q"], ["add", "server.py"], ["commit", "-q", "-m", "first"], main):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.invalid"]
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.gate(3)
def test_a_page_shows_what_its_commands_print(page: str, folder: Path) -> None:
    for step in steps_of((DOCS / "how-do-i" / page).read_text(encoding="utf-8")):
        take(step, folder, reader_environment())

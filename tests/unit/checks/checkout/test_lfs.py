"""Files of Git LFS."""

import os
from pathlib import Path

from ci_doctor.checks.checkout.lfs import CHECK
from tests.support.checks import check_context
from tests.support.git_repository import make_repository

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00ff\nsize 5\n"


def test_pointers_are_a_warning(tmp_path: Path) -> None:
    files = {
        ".gitattributes": "*.bin filter=lfs\n",
        "weights/a.bin": POINTER,
        "b.bin": "content\n",
        "about-lfs.txt": POINTER,
    }
    make_repository(tmp_path, files)

    (found,) = CHECK.run(check_context(tmp_path / "weights")).problems

    assert found.finding.summary == "1 of 2 files of Git LFS are pointers, such as weights/a.bin"


def test_a_checkout_without_any_is_ok(tmp_path: Path) -> None:
    make_repository(tmp_path)

    assert CHECK.run(check_context(tmp_path)).summary == "no file of Git LFS"


def test_pointers_that_the_job_asked_for_are_a_note(tmp_path: Path) -> None:
    make_repository(tmp_path, {".gitattributes": "*.bin filter=lfs\n", "a.bin": POINTER})
    told = {**os.environ, "GIT_LFS_SKIP_SMUDGE": "1"}

    (found,) = CHECK.run(check_context(tmp_path, environ=told)).problems

    assert found.finding.severity == "note"

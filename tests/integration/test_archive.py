# SPDX-License-Identifier: Apache-2.0
"""Archives that many processes write, read and evict at once, and that are killed while they do."""

import gzip
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ci_doctor.correctness.archive.archive import Archive
from tests.unit.correctness.archived import IDENTITY, IDS, made

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[2]
WRITER = """
import sys
from pathlib import Path
from ci_doctor.correctness.archive.archive import Archive
from tests.unit.correctness.archived import IDENTITY, IDS, made
archive = Archive(Path(sys.argv[1]), days=30, limit=int(sys.argv[3]))
result, lines = made(Path(sys.argv[2]))
for number in range(25):
    origin = (f"{number} of {sys.argv[2]}", None)
    archive.keep(IDENTITY, result, lines, build=sys.argv[2], origin=origin)
    archive.evict()
    found = archive.find(IDENTITY, IDS, 2)
    assert found.skipped == (), found.skipped
    assert all(file.start.result.start.answers == result.start.answers for file in found.starts)
"""
# Stops in the middle of writing: the samples are there in part, and nothing of them has its name yet.
STOPPED = """
import os, signal, sys
from pathlib import Path
from ci_doctor.correctness.archive.archive import Archive
from tests.unit.correctness.archived import IDENTITY, made
result, lines = made(Path(sys.argv[2]))
def slowly():
    yield from lines[:3]
    os.kill(os.getpid(), signal.SIGKILL)
Archive(Path(sys.argv[1]), days=30, limit=1 << 30).keep(IDENTITY, result, slowly(), build="b")
"""


def start(program: str, *arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)], cwd=ROOT, stderr=subprocess.PIPE
    )


@pytest.mark.parametrize("limit", [1 << 30, 5000, 1])
@pytest.mark.gate(1)
def test_many_may_write_read_and_evict_at_once(tmp_path: Path, limit: int) -> None:
    writers = [
        start(WRITER, tmp_path / "archive", tmp_path / f"{number}.jsonl", limit)
        for number in range(4)
    ]

    for writer in writers:
        _, said = writer.communicate(timeout=120)
        assert writer.returncode == 0, said.decode()

    archive = Archive(tmp_path / "archive", days=30, limit=limit)
    archive.evict()
    files = [path for path in archive.directory.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= limit
    assert len(archive.find(IDENTITY, IDS, 2, newest=1000).starts) == len(
        [path for path in files if path.suffix == ".gz"]
    )
    if limit == 1 << 30:
        assert len([path for path in files if path.suffix == ".gz"]) == 100


def test_a_writer_that_is_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    result, lines = made(tmp_path / "samples.jsonl")
    archive = Archive(tmp_path / "archive", days=30, limit=1 << 30)
    archive.keep(IDENTITY, result, lines, build="b")

    writer = start(STOPPED, tmp_path / "archive", tmp_path / "other.jsonl")
    writer.communicate(timeout=180)

    assert writer.returncode == -signal.SIGKILL
    found = archive.find(IDENTITY, IDS, 2)
    assert (len(found.starts), found.skipped) == (1, ())
    assert [path.name for path in archive.directory.iterdir()] == [f"identity-{IDENTITY.digest()}"]


def test_an_archived_start_can_be_read_without_ci_doctor(tmp_path: Path) -> None:
    result, lines = made(tmp_path / "samples.jsonl")
    path = Archive(tmp_path / "archive", days=30, limit=1 << 30).keep(
        IDENTITY, result, lines, build="b"
    )

    assert gzip.decompress(path.read_bytes()).endswith(b"".join(lines))


def test_the_starts_of_a_build_are_removed_as_the_page_says(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive", days=30, limit=1 << 30)
    result, lines = made(tmp_path / "samples.jsonl")
    good, bad = "c0ffee0" + "1" * 33, "c0ffee0" + "2" * 33
    for number, commit in ((41, good), (42, bad)):
        origin = (f"0190-{number}", commit)
        archive.keep(IDENTITY, result, lines, build=f"build {number}", origin=origin)
    page = (ROOT / "docs" / "archive.md").read_text()
    (command,) = (line for line in page.splitlines() if line.startswith("zgrep -l"))

    command = command.replace("DIR", str(archive.directory)).replace("4f2a91c", bad[:9])
    subprocess.run(["sh", "-c", command], check=True, timeout=60)

    (left,) = archive.find(IDENTITY, IDS, 2).starts
    assert left.start.build == "build 41"

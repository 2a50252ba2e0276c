# SPDX-License-Identifier: Apache-2.0
"""A history that a job may read and not write: a read-only mount, a role that only selects."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.test_plugin_robust import needs_mounts
from tests.support.cli import Ran, doctor, inside
from tests.support.postgres import NEEDS_POSTGRES, PROGRAMS, postgres

pytestmark = pytest.mark.integration
# Of the recipe nightly.
ROLES = Path(__file__).parents[2] / "examples" / "recipes" / "nightly" / "roles.sql"
CAUSE = "OSError: [Errno 28] No space left on device\n"
JUNIT = '<testsuite name="pytest"><testcase classname="t.a" name="x" time="0.1"/></testsuite>'
MOUNT = 'mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"; shift; exec "$@"'


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job whose log holds a cause that an earlier one had too."""
    (tmp_path / "state").mkdir()
    (tmp_path / "server.log").write_text(CAUSE)
    (tmp_path / "junit.xml").write_text(JUNIT)
    return tmp_path


def read_only(folder: Path, *arguments: str, cwd: Path, database: str) -> Ran:
    """Run ci-doctor where `folder` is mounted read-only."""
    env = {"CI_DOCTOR_HISTORY_DATABASE": database}
    before = ("unshare", "-rm", "sh", "-ec", MOUNT, "sh", str(folder))
    return doctor(*arguments, cwd=cwd, env=env, before=before)


@needs_mounts
def test_a_file_on_a_read_only_mount_answers_and_is_not_written(job: Path) -> None:
    state = job / "state"
    database = str(state / "history with a space.sqlite")
    before = {"CI_DOCTOR_HISTORY_DATABASE": database}
    inside("history", "ingest", "junit.xml", "--about=commit=abc", cwd=job, env=before)
    inside("diagnose", "server.log", cwd=job, env=before)
    content = Path(database).read_bytes()
    files = sorted(path.name for path in state.iterdir())

    answer = read_only(state, "history", "flaky", cwd=job, database=database)
    seen = read_only(state, "diagnose", "server.log", cwd=job, database=database)
    refused = read_only(
        state, "history", "ingest", "server.log", "junit.xml", cwd=job, database=database
    )

    assert answer.code == 0, answer
    text = " ".join(seen.out.split())
    assert "seen 1 time since" in text, seen
    assert "this run is not written: " in text
    assert "cannot be written" in text
    assert seen.code == 0
    assert refused.code == 2, refused
    assert "cannot be written" in " ".join(refused.err.split())
    assert Path(database).read_bytes() == content
    assert sorted(path.name for path in state.iterdir()) == files


@needs_mounts
def test_a_file_with_a_writer_at_work_is_not_read_as_if_nobody_wrote(job: Path) -> None:
    """Its newest rows stand in the write-ahead log, and SQLite cannot read that without writing beside it."""
    database = str(job / "state" / "h.sqlite")
    inside("history", "ingest", "junit.xml", cwd=job, env={"CI_DOCTOR_HISTORY_DATABASE": database})
    Path(f"{database}-wal").write_bytes(b"frames")

    ran = read_only(job / "state", "history", "flaky", cwd=job, database=database)

    assert ran.code == 2, ran
    assert "copy it into a folder of yours" in " ".join(ran.err.split())


@pytest.fixture
def server() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with postgres(Path(folder) / "s") as url:
            yield url


@NEEDS_POSTGRES
@pytest.mark.nightly
def test_a_role_that_only_selects_reads_and_writes_nothing(job: Path, server: str) -> None:
    inside("history", "upgrade", "--database", server, cwd=job)
    folder = server.partition("host=")[2]
    assert PROGRAMS is not None
    psql = [str(PROGRAMS / "psql"), "-h", folder, "-U", "ci", "-d", "postgres", "-qf", str(ROLES)]
    subprocess.run(psql, check=True, env={"PATH": os.environ["PATH"]})
    reader = server.replace("ci@", "ci_pull_requests@")
    nightly = server.replace("ci@", "ci_nightly@")

    written = inside("diagnose", "server.log", cwd=job, env={"CI_DOCTOR_HISTORY_DATABASE": nightly})
    answer = inside("history", "flaky", "--database", reader, cwd=job)
    seen = inside("diagnose", "server.log", cwd=job, env={"CI_DOCTOR_HISTORY_DATABASE": reader})
    refused = inside("history", "ingest", "junit.xml", "--database", reader, cwd=job)

    assert "not written" not in written.out, written
    assert answer.code == 0, answer
    text = " ".join(seen.out.split())
    assert "seen 1 time since" in text, seen
    assert "this run is not written: " in text
    assert "permission denied" in text
    assert refused.code == 2, refused
    assert "permission denied" in " ".join(refused.err.split())

# SPDX-License-Identifier: Apache-2.0
"""A history that cannot be used: a run says so, and keeps its status."""

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.integration.test_plugin_robust import needs_mounts
from tests.support.cli import doctor
from tests.support.histories import engine_of
from tests.support.silent_server import LOGGED_IN, silent_server

pytestmark = pytest.mark.integration


def changed_file(path: Path, kind: str) -> str:
    with engine_of(path):
        pass
    if kind == "newer":
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE alembic_version SET version_num = '9999'")
    else:
        # Byte 18 of the header: more than 2 stands for a file that may only be read
        # (https://www.sqlite.org/fileformat.html). Permissions do not stop root.
        content = bytearray(path.read_bytes())
        content[18] = 3
        path.write_bytes(content)
    return str(path)


@contextmanager
def unusable(path: Path, kind: str) -> Iterator[str]:
    """A database that takes no run."""
    if kind == "silent":
        with silent_server(LOGGED_IN) as url:
            yield f"{url}?sslmode=disable&gssencmode=disable"
    elif kind == "closed":
        with silent_server() as url:
            pass
        yield url
    else:
        yield changed_file(path, kind)


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("readonly", "cannot be written"),
        ("newer", "its schema is 9999"),
        ("closed", "refused"),
        ("silent", "no answer within 5 s"),
    ],
)
@pytest.mark.gate(1)
def test_a_history_that_cannot_be_used_is_named_and_changes_no_status(
    tmp_path: Path, kind: str, problem: str
) -> None:
    program = "print('TypeError: f() got an unexpected keyword argument'); raise SystemExit(3)"
    command = (sys.executable, "-c", program)

    with unusable(tmp_path / "h.sqlite", kind) as database:
        env = {"CI_DOCTOR_HISTORY_DATABASE": database}
        ran = doctor("run", "--diagnose", "--", *command, cwd=tmp_path, env=env)

    assert ran.code == 3, ran
    (line,) = [line for line in ran.err.splitlines() if line.startswith("history: ")]
    # A file that can be read still says how often the cause was seen.
    assert "not written: " in line
    assert problem in line


# Of so many KiB, of which `$3` are taken.
FULL = 'mount -t tmpfs -o size="$2"k tmpfs "$1"; head -c "$3"k /dev/zero > "$1/fill"; shift 3; exec "$@"'


@needs_mounts
@pytest.mark.parametrize(
    ("size", "taken"),
    # No room for the file's first page; for its header alone; for the index of its log.
    [(4, 4), (8, 4), (24, 0)],
)
def test_a_full_disk_is_no_bug_and_no_wrong_command_line(
    tmp_path: Path, size: int, taken: int
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "junit.xml").write_text(
        '<testsuite name="s"><testcase classname="a" name="b"/></testsuite>'
    )

    folder = str(tmp_path / "full")
    before = ("unshare", "-rm", "sh", "-ec", FULL, "sh", folder, str(size), str(taken))
    line = ("history", "ingest", "junit.xml", "--about=commit=abc", "--database=full/h.sqlite")

    ran = doctor(*line, cwd=tmp_path, before=before)

    assert ran.code == 75, ran
    assert "full" in ran.err or "No space left" in ran.err
    assert "free some space on that disk" in ran.err

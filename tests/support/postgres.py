# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: a real PostgreSQL in a folder of its own, run by an ordinary user, on a Unix socket alone."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

_NOBODY = 65534


def _programs() -> Path | None:
    """The folder with initdb and pg_ctl, of the newest version there is."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda each: each.parent.name)
    on_path = shutil.which("initdb")
    if folders:
        return folders[-1]
    return None if on_path is None else Path(on_path).parent


PROGRAMS = _programs()
NEEDS_POSTGRES = pytest.mark.skipif(
    PROGRAMS is None, reason="needs PostgreSQL's initdb and pg_ctl: apt-get install postgresql"
)


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """The address of a server that is stopped at the end; `folder` must be short, for its socket."""
    assert PROGRAMS is not None
    data = folder / "data"
    folder.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        os.chown(folder, _NOBODY, _NOBODY)
    _run([PROGRAMS / "initdb", "-D", data, "-U", "ci", "--auth=trust", "--no-sync", "-E", "UTF8"])
    options = f"-k {folder} -c listen_addresses='' -c fsync=off -c max_connections=20"
    _run([PROGRAMS / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start"])
    try:
        yield f"postgresql://ci@/postgres?host={folder}"
    finally:
        _run([PROGRAMS / "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop"])


def _run(words: Sequence[str | Path]) -> None:
    """Run a program as nobody if we are root: PostgreSQL refuses root."""
    prefix: list[str] = []
    if os.geteuid() == 0:
        prefix = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
    subprocess.run(
        [*prefix, *map(str, words)],
        cwd="/",
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=120,
    )

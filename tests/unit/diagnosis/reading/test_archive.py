# SPDX-License-Identifier: Apache-2.0
"""A tar or a zip with the logs of a job is read member by member."""

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from ci_doctor.diagnosis.run import DiagnoseRequest, run

SERVER = b"starting\nOSError: [Errno 98] Address already in use\n"
CLIENT = "client: no answer\nclient: gave up\n".encode("utf-16")
FILES = {
    "logs/client.log": CLIENT,
    "logs/server.log": SERVER,
    "logs/old.log.gz": gzip.compress(b"all is well\n"),
    "logs/core.bin": bytes(range(256)) * 40,
}


def tar(path: Path, mode: str, files: dict[str, bytes]) -> str:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return str(path)


def zipped(path: Path, files: dict[str, bytes]) -> str:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return str(path)


@pytest.mark.parametrize("kind", ["w", "w:gz", "w:xz", "w:bz2", "zip"])
def test_each_log_in_an_archive_is_one_of_its_own(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "logs.archive"
    name = zipped(path, FILES) if kind == "zip" else tar(path, kind, FILES)

    diagnosis = run(DiagnoseRequest(logs=(name,)))

    assert diagnosis.logs == tuple(
        f"{name}:logs/{each}" for each in ("client.log", "old.log.gz", "server.log")
    )
    assert diagnosis.cause is not None
    assert (diagnosis.cause.place.file, diagnosis.cause.place.line) == (
        f"{name}:logs/server.log",
        2,
    )
    assert [each.name for each in tmp_path.iterdir()] == ["logs.archive"]


def test_links_devices_and_folders_are_no_logs(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    tar(path, "w", {"server.log": SERVER})
    with tarfile.open(path, "a") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE):
            entry = tarfile.TarInfo(f"hostile-{kind.decode()}.log")
            entry.type = kind
            entry.linkname = "/etc/passwd"
            archive.addfile(entry)

    assert run(DiagnoseRequest(logs=(str(path),))).logs == (f"{path}:server.log",)


def test_a_name_that_leads_elsewhere_is_only_a_name(tmp_path: Path) -> None:
    name = tar(tmp_path / "a.tar", "w", {"../../escaped.log": SERVER})

    diagnosis = run(DiagnoseRequest(logs=(name,)))

    assert diagnosis.cause is not None
    assert not (tmp_path.parent.parent / "escaped.log").exists()


@pytest.mark.parametrize("kind", ["w", "zip"])
def test_a_damaged_archive_and_one_without_logs_are_unreadable(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.archive"
    name = zipped(path, FILES) if kind == "zip" else tar(path, kind, FILES)
    path.write_bytes(path.read_bytes()[:600])
    none = tar(tmp_path / "none.tar", "w", {})

    damaged = run(DiagnoseRequest(logs=(name,)))

    assert damaged.cause is None
    assert name in {**damaged.unreadable, **damaged.in_part} or damaged.logs == ()
    assert run(DiagnoseRequest(logs=(none,))).logs == ()

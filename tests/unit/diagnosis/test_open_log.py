# SPDX-License-Identifier: Apache-2.0
import bz2
import gzip
import io
import lzma
import os
import socket
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import zstandard

from ci_doctor.diagnosis.diagnosis import DiagnoseRequest, run
from ci_doctor.diagnosis.log_text import LogText
from ci_doctor.diagnosis.open_log import UnreadableLogError, expand, open_log

TEXT = "first line\nnicht möglich: grün\nlast line\n"
LINES = TEXT.encode().splitlines()


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def text_of(log: LogText) -> bytes:
    return b"".join(block.content[block.first : block.last] for block in log.blocks())


def lines_of(name: str) -> list[bytes]:
    with open_log(name) as log:
        content = text_of(log)
        assert [line.content for line in log.tail(100)] == content.splitlines()
    return content.splitlines()


def lines_in(folder: Path, content: bytes) -> list[bytes]:
    """Those of a log of this content, whose name tells nothing."""
    path = folder / "log"
    path.write_bytes(content)
    return lines_of(str(path))


FORMS: dict[str, bytes] = {
    "plain": TEXT.encode(),
    "byte-order-mark": TEXT.encode("utf-8-sig"),
    "utf-16-le": TEXT.encode("utf-16-le"),
    "utf-16-be": TEXT.encode("utf-16-be"),
    "utf-16-le-mark": "\ufeff".encode("utf-16-le") + TEXT.encode("utf-16-le"),
    "utf-16-be-mark": "\ufeff".encode("utf-16-be") + TEXT.encode("utf-16-be"),
    "gzip": gzip.compress(TEXT.encode()),
    "gzip-of-two": gzip.compress(TEXT[:20].encode()) + gzip.compress(TEXT[20:].encode()),
    "gzip-padded": gzip.compress(TEXT.encode()) + bytes(100),
    "gzip-of-utf-16": gzip.compress(TEXT.encode("utf-16")),
    "xz": lzma.compress(TEXT.encode()),
    "bzip2": bz2.compress(TEXT.encode()),
    "zstd": zstd(TEXT.encode()),
    "zstd-of-two": zstd(TEXT[:20].encode()) + zstd(TEXT[20:].encode()),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_log_is_read_in_every_form_whatever_its_name(form: str, tmp_path: Path) -> None:
    assert lines_in(tmp_path, FORMS[form]) == LINES


@pytest.mark.parametrize("form", ["plain", "gzip", "utf-16-le-mark"])
def test_a_log_is_read_from_a_fifo(form: str, tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(FORMS[form],))
    writer.start()

    lines = lines_of(str(path))
    writer.join()

    assert lines == LINES


def test_a_pipe_into_which_nobody_writes_a_socket_and_a_device_are_unreadable(
    tmp_path: Path,
) -> None:
    pipe, address = tmp_path / "pipe.log", tmp_path / "socket.log"
    os.mkfifo(pipe)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(address))
        names = (str(pipe), str(address), "/dev/zero")
        diagnosis = run(DiagnoseRequest(logs=names))

    assert diagnosis.logs == ()
    assert diagnosis.unreadable == {
        str(pipe): "a pipe into which nobody writes",
        str(address): "not a regular file",
        "/dev/zero": "not a regular file",
    }


def test_a_pipe_in_a_folder_or_that_a_pattern_matches_is_left_out_with_a_note(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.log").write_text(TEXT)
    pipes = tmp_path / "pipes"
    pipes.mkdir()
    for name in ("x.log", "y.log"):
        os.mkfifo(pipes / name)

    both = expand([str(tmp_path), f"{pipes}/x*.log"])

    assert both.names == (str(tmp_path / "a.log"),)
    assert both.skipped == {f"{pipes}/{name}.log": "not a regular file" for name in "xy"}
    assert both.unreadable == {}


@pytest.mark.integration
@pytest.mark.parametrize("is_pipe", [True, False])
def test_a_log_is_read_from_standard_input(is_pipe: bool, tmp_path: Path) -> None:
    script = (
        "from ci_doctor.diagnosis.open_log import open_log\n"
        "with open_log('-') as log:\n"
        "    print(log.name, [line.content for line in log.tail(1)], sum(1 for _ in log.blocks()))\n"
    )
    path = tmp_path / "log"
    path.write_bytes(FORMS["gzip"])
    command = [sys.executable, "-c", script]

    if is_pipe:
        ended = subprocess.run(command, input=path.read_bytes(), capture_output=True, check=True)
    else:
        with path.open("rb") as file:
            ended = subprocess.run(command, stdin=file, capture_output=True, check=True)

    assert ended.stdout == b"standard input [b'last line'] 1\n"


def test_standard_input_may_be_another_programs_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = SimpleNamespace(buffer=io.BytesIO(TEXT.encode()))
    monkeypatch.setattr(sys, "stdin", stream)

    assert lines_of("-") == LINES


def test_closed_standard_input_is_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)

    with pytest.raises(UnreadableLogError, match="standard input is closed"):
        lines_of("-")


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "xz": partial(lzma.compress, preset=0),  # the usual one takes three seconds
    "bzip2": bz2.compress,
    "zstd": zstd,
}


@pytest.mark.parametrize("packing", PACKERS)
def test_of_a_truncated_log_what_is_there_is_read_and_the_rest_is_said_to_be_missing(
    packing: str, tmp_path: Path
) -> None:
    text = b"".join(
        b"line %d %s\n" % (number, os.urandom(20).hex().encode()) for number in range(60_000)
    )
    packed = PACKERS[packing](text)
    path = tmp_path / "log"
    path.write_bytes(packed[: len(packed) // 2])

    with open_log(str(path)) as log:
        content = text_of(log)
        problem = log.problem

    assert len(content) > len(text) // 4
    assert text.startswith(content)
    assert problem == f"the {packing} data ends early"


def test_of_a_damaged_log_what_comes_before_the_damage_is_read(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(os.urandom(500_000).hex().encode()))
    packed[-8:] = bytes(8)
    path = tmp_path / "log"
    path.write_bytes(packed)

    with open_log(str(path)) as log:
        assert log.size > 100_000
        assert log.problem.startswith("damaged gzip data: ")


UNREADABLE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty"),
    "empty-gzip": (gzip.compress(b""), "empty"),
    "nothing-but-a-mark": ("\ufeff".encode(), "empty"),
    "zeros": (bytes(1000), "binary data, not a log"),
    "program": (Path(sys.executable).read_bytes()[:100_000], "binary data, not a log"),
    "noise": (os.urandom(100_000), "binary data, not a log"),
    "damaged-gzip": (b"\x1f\x8b\x08" + b"\xff" * 100, "damaged gzip data"),
    "packed-twice": (gzip.compress(gzip.compress(b"x")), "packed twice"),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_what_is_no_log_is_unreadable_with_a_reason(kind: str, tmp_path: Path) -> None:
    content, reason = UNREADABLE[kind]

    with pytest.raises(UnreadableLogError, match=reason):
        lines_in(tmp_path, content)


READABLE = {
    "latin-1": "Datei nicht möglich zu öffnen\n".encode("latin-1") * 100,
    "colours": b"\x1b[31mFAILED\x1b[0m \x07\x08\n" * 100,
    "zeros-before": bytes(1000) + b"a line after a part that was freed\n",
    "no-newline": b"only",
    "chinese": "错误：没有内存\n".encode() * 100,
}


@pytest.mark.parametrize("kind", READABLE)
def test_an_odd_log_is_no_binary(kind: str, tmp_path: Path) -> None:
    assert lines_in(tmp_path, READABLE[kind]) == READABLE[kind].splitlines()


def test_a_part_that_was_freed_at_the_start_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.truncate(1024**4)
        file.seek(0, os.SEEK_END)
        file.write(b"what is left\n")

    with open_log(str(path)) as log:
        assert [line.content.strip(b"\0") for line in log.tail(1)] == [b"what is left"]
        assert sum(len(block.content) for block in log.blocks()) < 1024**2


def test_zstd_without_its_library_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)

    with pytest.raises(UnreadableLogError, match=r"ci-doctor-toolkit\[fast-logs\]"):
        lines_in(tmp_path, FORMS["zstd"])


@pytest.mark.integration
def test_a_full_disk_is_named_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(gzip.compress(b"a line\n" * 100_000))
    script = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
        "from ci_doctor.diagnosis.open_log import open_log\n"
        "try:\n"
        "    with open_log(sys.argv[1]):\n"
        "        pass\n"
        "except OSError as error:\n"
        "    print(error)\n"
    )

    ended = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )

    assert ended.stdout == (
        f"no space left in {tmp_path} for a copy of it: set TMPDIR to a folder with more room\n"
    )


def test_a_log_that_is_missing_or_forbidden_raises_what_the_system_says(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        lines_of(str(tmp_path / "missing"))
    with pytest.raises(IsADirectoryError):
        lines_of(str(tmp_path))


def test_no_descriptor_is_left(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    lines_in(tmp_path, FORMS["gzip-of-utf-16"])

    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (
        "b.log",
        "a.log.1",
        "run/console.txt.gz",
        "run/notes.md",
        ".hidden.log",
        ".git/x.log",
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("text\n")
    return tmp_path


def test_a_folder_means_all_logs_in_it_and_below(folder: Path) -> None:
    (folder / "run" / "loop").symlink_to(folder)

    names = expand([str(folder)]).names

    assert names == tuple(str(folder / each) for each in ("a.log.1", "b.log", "run/console.txt.gz"))


def test_a_pattern_means_the_files_that_match_it(folder: Path) -> None:
    assert expand([f"{folder}/*.log"]).names == (str(folder / "b.log"),)
    assert expand([f"{folder}/**/*.gz"]).names == (str(folder / "run/console.txt.gz"),)


def test_a_file_counts_once_whatever_it_is_called(folder: Path) -> None:
    log = folder / "b.log"
    (folder / "same.log").hardlink_to(log)
    (folder / "link.log").symlink_to(log)

    names = expand([str(log), str(folder / "link.log"), f"{folder}/*.log", "-", "-"]).names

    assert names == (str(log), "-")


def test_a_name_with_signs_of_a_pattern_is_a_file_if_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "log[1].log"
    path.write_text("text\n")

    assert expand([str(path)]).names == (str(path),)


def test_what_cannot_be_read_has_a_reason(folder: Path) -> None:
    empty = folder / "empty"
    empty.mkdir()
    missing, pattern = str(folder / "missing.log"), f"{folder}/*.nothing"

    unreadable = expand([missing, pattern, str(empty)]).unreadable

    assert unreadable == {
        missing: "No such file or directory",
        pattern: "no file matches",
        str(empty): "holds no logs",
    }


def test_of_a_huge_folder_the_first_logs_are_read_and_the_limit_is_said(tmp_path: Path) -> None:
    for number in range(1001):
        os.close(os.open(tmp_path / f"{number:04}.log", os.O_CREAT | os.O_WRONLY))

    names = expand([str(tmp_path)])

    assert len(names.names) == 1000
    assert names.limited == {str(tmp_path): "only its first 1000 logs are read"}

# SPDX-License-Identifier: Apache-2.0
import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import zstandard

from ci_doctor.diagnosis.reading.log_text import LogText
from ci_doctor.diagnosis.reading.open_log import open_log
from ci_doctor.diagnosis.reading.unreadable import UnreadableLogError

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
    path = tmp_path / "log"
    path.write_bytes(FORMS[form])

    assert lines_of(str(path)) == LINES


@pytest.mark.parametrize("form", ["plain", "gzip", "utf-16-le-mark"])
def test_a_log_is_read_from_a_fifo(form: str, tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(FORMS[form],))
    writer.start()

    lines = lines_of(str(path))
    writer.join()

    assert lines == LINES


@pytest.mark.integration
@pytest.mark.parametrize("is_pipe", [True, False])
def test_a_log_is_read_from_standard_input(is_pipe: bool, tmp_path: Path) -> None:
    script = (
        "from ci_doctor.diagnosis.reading.open_log import open_log\n"
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
    path = tmp_path / "log"
    path.write_bytes(content)

    with pytest.raises(UnreadableLogError, match=reason):
        lines_of(str(path))


READABLE = {
    "latin-1": "Datei nicht möglich zu öffnen\n".encode("latin-1") * 100,
    "colours": b"\x1b[31mFAILED\x1b[0m \x07\x08\n" * 100,
    "zeros-before": bytes(1000) + b"a line after a part that was freed\n",
    "no-newline": b"only",
    "chinese": "错误：没有内存\n".encode() * 100,
}


@pytest.mark.parametrize("kind", READABLE)
def test_an_odd_log_is_no_binary(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(READABLE[kind])

    assert lines_of(str(path)) == READABLE[kind].splitlines()


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
    path = tmp_path / "log.zst"
    path.write_bytes(FORMS["zstd"])

    with pytest.raises(UnreadableLogError, match=r"ci-doctor-toolkit\[fast-logs\]"):
        lines_of(str(path))


@pytest.mark.integration
def test_a_full_disk_is_named_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(gzip.compress(b"a line\n" * 100_000))
    script = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
        "from ci_doctor.diagnosis.reading.open_log import open_log\n"
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
    path = tmp_path / "log"
    path.write_bytes(FORMS["gzip-of-utf-16"])
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    lines_of(str(path))

    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208

# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.services.probes.log_search import GrowingLog, LogSearch


def found(pattern: str, *pieces: bytes) -> bool:
    search = LogSearch(pattern)
    for piece in pieces:
        search.feed(piece)
    return search.matched


@pytest.mark.parametrize(
    ("pattern", "pieces"),
    [
        ("running on .*:8000", [b"INFO running on http://0.0.0.0:8000"]),
        ("^ready$", [b"not ready\nready\n"]),
        ("^ready", [b"50 %\r100 %\rready"]),
        ("ready", [b"re", b"ady"]),
        ("grün", ["grün".encode()[:3], "grün".encode()[3:]]),
        ("ready \ufffd", [b"ready \xff"]),
        ("is ready", [b"\x1b[32mis \x1b[1mready\x1b[0m"]),
        ("is ready", [b"is \x1b[3", b"2mready"]),
        ("is ready", [b"is \x1b]0;title\x1b", b"\\ready"]),
        ("one\ntwo", [b"one\n", b"two"]),
    ],
)
def test_a_pattern_is_found(pattern: str, pieces: list[bytes]) -> None:
    assert found(pattern, *pieces)


@pytest.mark.parametrize(
    "pieces", [[b""], [b"not ready"], [b"x" * 20_000 + b"ready"], [b"x" * 20_000, b"ready"]]
)
def test_the_beginning_of_a_line_is_not_where_the_window_begins(pieces: list[bytes]) -> None:
    assert not found("^ready", *pieces)
    assert not found("^xxx", *([b"-" * 1000, *pieces]))


@given(st.lists(st.binary(max_size=50)), st.integers(0, 60))
def test_how_a_text_is_cut_into_pieces_does_not_matter(pieces: list[bytes], at: int) -> None:
    text = b"".join(pieces) + b"\nserver is \x1b[32mready\x1b[0m\n"
    assert found("^server is ready$", text[:at], text[at:])


def read_all(log: GrowingLog) -> bool:
    while log.read_on():
        pass
    return log.search.matched


def test_a_log_is_read_on_and_never_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = GrowingLog(path, "ready")
    assert not read_all(log)
    assert log.problem == "No such file or directory"
    path.write_bytes(b"x" * 600_000)
    assert not read_all(log)
    with path.open("ab") as file:
        file.write(b"\nlast rea")
    assert not read_all(log)
    assert log.search.last_line == "last rea"
    with path.open("ab") as file:
        file.write(b"dy")
    assert read_all(log)
    assert log.problem is None


def test_a_log_that_was_replaced_or_cut_short_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("a long first text\n")
    log = GrowingLog(path, "^ready")
    assert not read_all(log)
    path.write_text("cut\n")
    assert not read_all(log)
    assert log.search.last_line == "cut"
    (tmp_path / "new").write_text("ready")
    (tmp_path / "new").rename(path)
    assert read_all(log)


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    log = GrowingLog(tmp_path, "x")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    assert not read_all(log)
    assert log.problem == "Is a directory"
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208

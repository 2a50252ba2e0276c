# SPDX-License-Identifier: Apache-2.0
import os
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.diagnosis.log_end import prepare_in_background, prepared_rules, read_log_end
from ci_doctor.diagnosis.log_text import Excerpt, marked
from ci_doctor.diagnosis.open_log import open_log
from ci_doctor.diagnosis.scan import scan, search_for
from ci_doctor.system.files.bounded_log import LogBound


def test_line_numbers_are_those_of_the_whole_file(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {number} {'x' * 100}\n" for number in range(1, 20_001)))
    excerpt = read_log_end(log).excerpt
    assert (excerpt.line, excerpt.end_line) == (19_986, 20_000)
    assert excerpt.lines[0].startswith("line 19986 ")


def test_the_start_of_a_huge_log_is_never_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.truncate(8 * 2**30)  # sparse: no disk is used
        file.seek(0, os.SEEK_END)
        file.write(b"\nthe end\n")
    excerpt = read_log_end(log).excerpt
    assert (excerpt.line, excerpt.end_line) == (None, None)
    assert excerpt.lines[-1] == "the end"


def test_bytes_that_are_no_text_are_shown_as_such(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"good\n\xff\xfe bad")
    assert read_log_end(log).excerpt.lines == ("good", "\ufffd\ufffd bad")


def test_a_log_that_is_gone_has_no_lines(tmp_path: Path) -> None:
    assert read_log_end(tmp_path / "none").excerpt == Excerpt()


def test_the_end_of_a_log_that_is_being_bounded_shows_no_zeros(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"".join(b"%-63d\n" % number for number in range(3000)))
    LogBound(log, 64 * 1024).check()  # what it frees is within the part that is read
    with log.open("ab") as file:
        file.write(b"a \0 b\xff\n")
    excerpt = read_log_end(log).excerpt
    assert excerpt.lines[-1] == "a  b\ufffd"
    assert excerpt.line is None, "lines are missing"
    assert all("\0" not in line for line in excerpt.lines)
    LogBound(log, 64 * 1024).finish()


def test_what_is_prepared_is_what_a_scan_takes(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("OSError: [Errno 28] No space left on device\n")
    rules = prepared_rules()
    before = search_for.cache_info().misses
    with open_log(str(path)) as log:
        assert scan(log, rules).hits
    assert search_for.cache_info().misses == before


def test_whoever_needs_the_rules_gets_those_that_a_thread_prepares() -> None:
    prepare_in_background()
    rules = prepared_rules()
    for thread in threading.enumerate():
        if thread.name == "log-rules":
            thread.join()
    assert prepared_rules() is rules


TRACEBACK = """\
loading
Traceback (most recent call last):
  File "serve.py", line 20, in <module>
    main()
  File "serve.py", line 12, in main
    load()
  File "kernels.py", line 3, in load
    raise ImportError("no libcudart")
ImportError: no libcudart
cleaning up
"""


def root_lines(text: str, fatal: str | None = None) -> Excerpt:
    with tempfile.NamedTemporaryFile() as log:
        Path(log.name).write_text(text, newline="")
        return read_log_end(Path(log.name), fatal).excerpt


def test_the_exception_is_shown_with_the_innermost_frames_and_what_follows() -> None:
    excerpt = root_lines(TRACEBACK)
    assert (excerpt.line, excerpt.end_line) == (5, 10)
    assert excerpt.lines[0] == '  File "serve.py", line 12, in main'
    assert excerpt.lines[-2:] == ("ImportError: no libcudart", "cleaning up")


@pytest.mark.parametrize(
    "prefix",
    ["(EngineCore_DP0 pid=276) ERROR 11-07 05:29:04 [core.py:708] ", "\x1b[31m(worker)\x1b[0m "],
)
def test_a_logger_s_prefix_is_seen_through(prefix: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in TRACEBACK.splitlines())
    assert root_lines(text).line == 5


def test_the_last_traceback_counts() -> None:
    text = (
        TRACEBACK
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + TRACEBACK.replace("ImportError", "torch.OutOfMemoryError")
    )
    assert "torch.OutOfMemoryError: no libcudart" in root_lines(text).lines


POINTER = "RuntimeError: See root cause above."
POINTING = TRACEBACK.replace("ImportError: no libcudart", POINTER)


def test_a_pointer_alone_is_better_than_nothing() -> None:
    assert POINTER in root_lines(POINTING).lines


def test_without_a_traceback_the_last_lines_that_say_something_are_shown() -> None:
    text = "\n\n".join(f"line {number}" for number in range(40)) + "\n\n\n"
    excerpt = root_lines(text)
    assert excerpt.lines == tuple(f"line {number}" for number in range(25, 40))
    assert (excerpt.line, excerpt.end_line) == (51, 79)


def test_a_traceback_cut_off_in_the_middle_is_read_as_plain_lines() -> None:
    text = TRACEBACK[: TRACEBACK.index("    raise")]
    assert root_lines(text).lines[-1] == '  File "kernels.py", line 3, in load'


def test_escapes_progress_and_endless_lines_are_tamed() -> None:
    assert root_lines("\x1b[1mbold\x1b[0m\n1%\r50%\r100%\r\n" + "x" * 10_000).lines == (
        "bold",
        "100%",
        "x" * 500,
    )


@pytest.mark.parametrize("text", ["", "\n\n", "   \n"])
def test_nothing_written_gives_no_lines(text: str) -> None:
    assert root_lines(text).lines == ()


@given(
    st.lists(
        st.sampled_from(
            [
                "Traceback (most recent call last):",
                "  File",
                '  File "x.py", line 1',
                "ValueError: x",
                "",
                "word",
                "\x00\r\x1b[",
            ]
        )
    )
)
def test_lines_are_always_those_of_the_text(lines: list[str]) -> None:
    excerpt = root_lines("\n".join(lines))
    if excerpt == Excerpt():
        return
    assert excerpt.line is not None
    assert excerpt.end_line is not None
    assert excerpt.root is not None
    assert 0 <= excerpt.root < len(excerpt.lines)
    assert 1 <= excerpt.line <= excerpt.end_line
    assert len(excerpt.lines) <= excerpt.end_line - excerpt.line + 1
    assert excerpt.end_line <= max(1, len(lines))


FRAMES = tuple(TRACEBACK.splitlines()[4:])


@pytest.mark.parametrize(
    ("lines", "root"),
    [
        (FRAMES, 4),
        (tuple(f"(Engine pid=2) ERROR [core.py:7] {line}" for line in FRAMES), 4),
        (("a", "error: no such file", "see the error above", "bye"), 1),
        (("loading", "OSError: [Errno 98] Address already in use", "error: giving up"), 1),
        (("one", "two"), 1),
        (('  File "x.py", line 1', "    cut off"), 1),
        ((), None),
    ],
)
def test_the_line_nearest_to_the_cause_is_found(lines: tuple[str, ...], root: int | None) -> None:
    assert root_lines("\n".join(lines)).root == root


def test_the_fatal_line_is_the_root_line() -> None:
    assert root_lines("x\nEngineDeadError\nValueError: y", "EngineDeadError").root == 1


def test_the_root_line_is_never_cut_off() -> None:
    lines = [f"line {number}" for number in range(40)]
    for root in range(40):
        shown = marked(lines, root, 10)
        assert len(shown) == 10
        assert [line for line in shown if line.startswith("> ")] == [f"> line {root}"]
    assert marked(lines, 39, 10)[-1] == "> line 39"
    assert marked((), None, 10) == []


def test_the_root_line_is_that_of_the_traceback_that_was_chosen() -> None:
    excerpt = root_lines(TRACEBACK.replace("cleaning up\n", "") + POINTING)
    assert excerpt.lines[-1] == '  File "serve.py", line 20, in <module>', "frames of the next one"
    assert excerpt.root is not None
    assert excerpt.lines[excerpt.root] == "ImportError: no libcudart"


def test_a_syntax_error_has_frames_and_no_header() -> None:
    excerpt = root_lines(
        '0 errors\n  File "serve.py", line 3\n    if x\n        ^\nSyntaxError: expected'
    )
    assert (excerpt.line, excerpt.root) == (1, 4)


@pytest.mark.timeout(60)
def test_a_fifo_has_no_end_and_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    assert read_log_end(tmp_path / "log").excerpt.lines == ()


INNER = {
    "a field and its mistake": """\
pydantic_core._pydantic_core.ValidationError: 1 validation error for CacheConfig
swap_space
  Unexpected keyword argument [type=unexpected_keyword_argument, input_value=4, input_type=int]
""",
    "several lines, and the type below": """\
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Unexpected keyword argument, or a folder that nobody may read.
Please verify it. [type=value_error, input_value=4, input_type=int]
""",
    "a line longer than what is read": f"""\
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Unexpected keyword argument {"'Arch', " * 2000} [type=value_error, input_value=4, input_type=int]
""",
}


@pytest.mark.parametrize("text", INNER.values(), ids=INNER)
def test_an_inner_cause_that_no_rule_knows_is_named(tmp_path: Path, text: str) -> None:
    log = tmp_path / "log"
    log.write_text(f'Traceback (most recent call last):\n  File "/w/a.py", line 3, in make\n{text}')
    end = read_log_end(log)
    assert end.cause is not None
    assert "Unexpected keyword argument" in end.cause.place.message
    assert any("Unexpected keyword argument" in line for line in end.excerpt.lines)

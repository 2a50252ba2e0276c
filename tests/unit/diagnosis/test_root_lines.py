# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.diagnosis.root_lines import OutsideCause, outside_cause, root_lines

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


def prefixed(prefix: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in TRACEBACK.splitlines())


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
    assert root_lines(prefixed(prefix)).line == 5


def test_the_last_traceback_counts() -> None:
    text = (
        TRACEBACK
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + TRACEBACK.replace("ImportError", "torch.OutOfMemoryError")
    )
    assert "torch.OutOfMemoryError: no libcudart" in root_lines(text).lines


def test_a_traceback_that_points_to_another_is_passed_over() -> None:
    text = TRACEBACK + TRACEBACK.replace(
        "ImportError: no libcudart", "RuntimeError: init failed. See root cause above."
    )
    assert "ImportError: no libcudart" in root_lines(text).lines


def test_a_pointer_alone_is_better_than_nothing() -> None:
    text = TRACEBACK.replace("ImportError: no libcudart", "RuntimeError: See root cause above.")
    assert "RuntimeError: See root cause above." in root_lines(text).lines


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
    assert 1 <= excerpt.line <= excerpt.end_line
    assert len(excerpt.lines) <= excerpt.end_line - excerpt.line + 1
    assert excerpt.end_line <= max(1, len(lines))


@pytest.mark.parametrize(
    ("line", "port"),
    [
        ("OSError: [Errno 98] Address already in use", None),
        (
            "[Errno 98] error while attempting to bind on address ('127.0.0.1', 8000): address already in use",
            8000,
        ),
        ("Error: listen EADDRINUSE: address already in use :::3000", 3000),
        ("Error: listen EADDRINUSE: address already in use 127.0.0.1:3000", 3000),
        (
            "The server socket has failed to listen. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE",
            29500,
        ),
    ],
)
def test_the_port_that_is_taken_is_read_from_the_line(line: str, port: int | None) -> None:
    cause = outside_cause(["before", line])
    assert cause == OutsideCause(
        reason="the address that it wants to listen on is in use", about_port=True, port=port
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("OSError: [Errno 28] No space left on device: '/cache/x'", "no space is left on a disk"),
        ("OSError: [Errno 12] Cannot allocate memory", "the host is out of memory"),
        (
            "ValueError: Free memory on device cuda:0 (3.1/79.2 GiB) on startup is less than desired GPU memory utilization",
            "another process holds the GPU's memory",
        ),
        ("RuntimeError: No CUDA GPUs are available", "no GPU is available"),
    ],
)
def test_a_cause_outside_is_recognised(line: str, reason: str) -> None:
    assert outside_cause([line]) == OutsideCause(reason=reason)


@pytest.mark.parametrize(
    "line",
    ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "ValueError: 98", ""],
)
def test_what_the_change_itself_may_have_caused_is_not_outside(line: str) -> None:
    assert outside_cause([line]) is None

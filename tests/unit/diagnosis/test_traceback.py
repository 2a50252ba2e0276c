# SPDX-License-Identifier: Apache-2.0
from ci_doctor.diagnosis.traceback import Traceback, tracebacks

WHOLE = (
    "Traceback (most recent call last):",
    '  File "serve.py", line 20, in <module>',
    "    main()",
    "ImportError: no libcudart",
)


def test_a_traceback_ends_with_its_exception() -> None:
    lines = ["loading", *WHOLE, "bye: now"]
    whole = Traceback(start=1, exception=4, has_header=True, is_pointer=False)
    assert tracebacks(lines) == [whole]


def test_tracebacks_of_two_writers_interleave() -> None:
    lines = []
    for line in WHOLE:
        lines += [f"(engine pid=2) {line}", line.replace("ImportError", "OSError")]
    both = tracebacks(lines)
    assert [(each.start, each.exception) for each in both] == [(0, 6), (1, 7)]


def test_a_new_header_cuts_off_what_has_begun() -> None:
    assert [each.start for each in tracebacks([*WHOLE[:2], *WHOLE])] == [2]


def test_a_traceback_without_its_exception_is_none() -> None:
    assert tracebacks(WHOLE[:3]) == []
    assert tracebacks(["Traceback (most recent call last):", "ValueError: not a frame"]) == []


def test_frames_alone_are_known_as_such() -> None:
    lines = ['  File "<string>", line 1', "app.make.<locals>.OwnError: no"]
    assert tracebacks(lines) == [
        Traceback(start=0, exception=1, has_header=False, is_pointer=False)
    ]


def test_an_exception_may_only_point_elsewhere() -> None:
    (pointer,) = tracebacks([*WHOLE[:3], "RuntimeError: failed. See root cause above."])
    assert pointer.is_pointer


def test_a_long_log_of_frames_is_read_once() -> None:
    # 20,000 frames without an exception: a search from each of them would take minutes.
    assert tracebacks(['  File "x.py", line 1, in f'] * 20_000) == []

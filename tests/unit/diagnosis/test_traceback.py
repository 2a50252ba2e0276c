# SPDX-License-Identifier: Apache-2.0
from ci_doctor.diagnosis.traceback import ChainLink, Traceback, tracebacks

WHOLE = (
    "Traceback (most recent call last):",
    '  File "serve.py", line 20, in <module>',
    "    main()",
    "ImportError: no libcudart",
)


def test_a_traceback_ends_with_its_exception() -> None:
    lines = ["loading", *WHOLE, "bye: now"]
    whole = Traceback(start=1, exception=4, has_header=True, is_pointer=False, files=("serve.py",))
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
        Traceback(start=0, exception=1, has_header=False, is_pointer=False, files=("<string>",))
    ]


def test_an_exception_may_only_point_elsewhere() -> None:
    (pointer,) = tracebacks([*WHOLE[:3], "RuntimeError: failed. See root cause above."])
    assert pointer.is_pointer


def test_a_long_log_of_frames_is_read_once() -> None:
    # 20,000 frames without an exception: a search from each of them would take minutes.
    assert tracebacks(['  File "x.py", line 1, in f'] * 20_000) == []


def test_only_the_first_line_of_a_record_has_the_loggers_prefix() -> None:
    lines = [f"[2026-01-28 15:59:42 TP3] Scheduler hit an exception: {WHOLE[0]}", *WHOLE[1:]]
    (only,) = tracebacks(lines)
    assert (only.start, only.exception, only.has_header) == (0, 3, True)


def test_a_viewer_may_drop_the_indentation() -> None:
    (only,) = tracebacks([line.strip() for line in WHOLE])
    assert only.exception == 3


def test_a_loggers_line_between_is_no_exception() -> None:
    lines = [*WHOLE[:3], "INFO:     127.0.0.1:5 - GET /health", "else:", WHOLE[3]]
    assert [each.exception for each in tracebacks(lines)] == [5]


def test_the_tracebacks_of_a_group_stand_in_its_margin() -> None:
    lines = [
        "  + Exception Group Traceback (most recent call last):",
        '  |   File "serve.py", line 20, in <module>',
        "  |     main()",
        "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)",
        "  +-+---------------- 1 ----------------",
        "    | Traceback (most recent call last):",
        '    |   File "load.py", line 3, in load',
        "    |     raise ValueError",
        "    | ValueError: no weights",
        "    +------------------------------------",
    ]
    assert [each.exception for each in tracebacks(lines)] == [3, 8]


def test_chained_exceptions_name_the_one_that_they_follow() -> None:
    prefix = "(EngineCore_DP0 pid=7) ERROR 01-28 15:59:42 [core.py:935] "
    chain = [
        *WHOLE,
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        *WHOLE,
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        *WHOLE,
    ]
    lines = [prefix + line for line in chain]
    # Another process prints in between.
    lines.insert(5, "(Worker_TP1 pid=8) " + WHOLE[0])
    links = [(each.follows, each.link) for each in tracebacks(lines)]
    assert links == [(None, None), (3, ChainLink.DIRECT), (11, ChainLink.DURING)]


def test_frames_of_a_crash_have_no_exception() -> None:
    lines = ['  File "/x/wait.py", line 359 in wait', "Extension modules: torch", "ValueError: x"]
    assert tracebacks(lines) == []

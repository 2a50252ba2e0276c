# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.diagnosis.diagnosis import diagnose, load_rules
from ci_doctor.diagnosis.tracebacks import ChainLink, Traceback, chains, root_of, tracebacks

WHOLE = (
    "Traceback (most recent call last):",
    '  File "serve.py", line 20, in <module>',
    "    main()",
    "ImportError: no libcudart",
)


def test_a_traceback_ends_with_its_exception() -> None:
    lines = ["loading", *WHOLE, "bye: now"]
    whole = Traceback(start=1, exception=4, has_header=True, is_pointer=False, files=["serve.py"])
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
        Traceback(start=0, exception=1, has_header=False, is_pointer=False, files=["<string>"])
    ]


@pytest.mark.parametrize(
    "words",
    [
        "failed. See root cause above.",
        "Worker failed with error 'no', please check the stack trace above for the root cause",
        "EngineCore encountered an issue. See stack trace (above) for the root cause.",
    ],
)
def test_an_exception_may_only_point_elsewhere(words: str) -> None:
    (pointer,) = tracebacks([*WHOLE[:3], f"RuntimeError: {words}"])
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


DIRECT = "The above exception was the direct cause of the following exception:"
DURING = "During handling of the above exception, another exception occurred:"


def _one(exception: str) -> list[str]:
    return ["Traceback (most recent call last):", '  File "x.py", line 1, in f', exception]


def _root(words: str, first: str, second: str, points: tuple[int, int] = (60, 60)) -> str:
    """The exception that explains `second`, which follows `first` by `words`."""
    lines = [*_one(first), "", words, "", *_one(second)]
    (chain,) = chains(tracebacks(lines))
    by_index = dict(zip([2, 8], points, strict=True))
    return lines[root_of(chain, lines, lambda index: by_index[index]).exception]


def test_the_direct_cause_explains_what_was_raised_from_it() -> None:
    assert _root(DIRECT, "TypeError: None has no len()", "RuntimeError: no") == (
        "TypeError: None has no len()"
    )


def test_what_says_much_more_explains_even_its_direct_cause() -> None:
    second = "GatedRepoError: 401"
    assert _root(DIRECT, "HTTPError: x", second, (60, 90)) == second


@pytest.mark.parametrize("first", ["StopIteration", "KeyError: 'x'", "_queue.Empty"])
def test_an_exception_that_programs_expect_does_not_explain_the_next_one(first: str) -> None:
    assert _root(DURING, first, "ValueError: no such model") == "ValueError: no such model"


def test_an_unexpected_exception_explains_the_one_raised_while_it_was_handled() -> None:
    assert _root(DURING, "RuntimeError: a", "RuntimeError: b") == "RuntimeError: a"


def test_a_pointer_never_explains() -> None:
    pointer = "RuntimeError: failed. See root cause above."
    assert _root(DURING, "KeyError: 'x'", pointer) == "KeyError: 'x'"


def test_exceptions_without_a_link_are_chains_of_their_own() -> None:
    lines = [*_one("ValueError: a"), *_one("ValueError: b")]
    assert [len(chain) for chain in chains(tracebacks(lines))] == [1, 1]


FRAME = '  File "serve.py", line 20, in main'


def _named(tmp_path: Path, text: str) -> tuple[str, str | None]:
    """The text and the rule of the line that is named for a log of `text`."""
    log = tmp_path / "a.log"
    log.write_text(text, "utf-8")
    diagnosis = diagnose([str(log)], load_rules())
    assert diagnosis.best is not None
    assert diagnosis.cause is not None
    return diagnosis.best.text, diagnosis.cause.rule


def _traceback(exception: str, prefix: str = "", before: str = "") -> str:
    lines = [before, "Traceback (most recent call last):", FRAME, "    run()", exception]
    return "".join(f"{prefix}{line}\n" for line in lines if line)


def test_a_tolerated_exception_is_weaker_than_a_later_one(tmp_path: Path) -> None:
    text = _traceback("ValueError: a", before="plugin broken, falling back to the slow path")
    text += _traceback("ValueError: b")
    assert _named(tmp_path, text)[0] == "ValueError: b"


def test_an_exception_logged_as_a_warning_is_weaker(tmp_path: Path) -> None:
    text = _traceback("ValueError: a", prefix="WARNING 01-28 15:59:42 [core.py:9] ")
    text += _traceback("ValueError: b", prefix="ERROR 01-28 15:59:43 [core.py:9] ")
    assert _named(tmp_path, text)[0].endswith("ValueError: b")


def test_a_request_answered_with_an_error_is_weaker_than_what_ends_the_server(
    tmp_path: Path,
) -> None:
    text = _traceback("ValueError: a", before="ERROR:    Exception in ASGI application")
    text += _traceback("ValueError: b", before="EngineCore encountered a fatal error.")
    assert _named(tmp_path, text)[0] == "ValueError: b"


def test_of_processes_that_print_the_same_the_first_counts(tmp_path: Path) -> None:
    text = "".join(
        _traceback("ValueError: x", prefix=f"(Worker_TP{rank} pid={rank}) ") for rank in range(3)
    )
    assert _named(tmp_path, text)[0] == "(Worker_TP0 pid=0) ValueError: x"


def test_an_exception_without_a_usual_name_is_named(tmp_path: Path) -> None:
    text, rule = _named(tmp_path, _traceback("engine.errors.Boom: the core is gone"))
    assert (text, rule) == ("engine.errors.Boom: the core is gone", "python/exception")


@pytest.mark.parametrize(
    ("file", "rule"), [("serve.py", "python/assertion"), ("test_a.py", "python/test-assertion")]
)
def test_an_assertion_is_a_failed_test_only_in_a_test(tmp_path: Path, file: str, rule: str) -> None:
    text = _traceback("AssertionError: x is odd").replace("serve.py", file)
    assert _named(tmp_path, text)[1] == rule


def test_a_killed_entrypoint_does_not_hide_the_buffered_traceback(tmp_path: Path) -> None:
    text = "./run.sh: line 3:    28 Killed                  python3 -m server\n"
    text += _traceback("KeyError: 'rope_scaling'")
    assert _named(tmp_path, text)[0] == "KeyError: 'rope_scaling'"


def test_the_inner_exception_of_ray_is_named(tmp_path: Path) -> None:
    text = _traceback("ray.exceptions.RayTaskError(ValueError): ray::Worker.run() (pid=5)")
    text += f"{FRAME}\n    step()\nValueError: expected 22, got 21\n"
    assert _named(tmp_path, text)[0] == "ValueError: expected 22, got 21"


def test_what_another_process_tolerates_says_nothing_of_this_one(tmp_path: Path) -> None:
    text = "(APIServer pid=1) WARNING 01-28 15:59:42 [x.py:3] no kernels, falling back\n"
    text += _traceback(
        "ValueError: b", prefix="(EngineCore pid=2) ERROR 01-28 15:59:43 [core.py:9] "
    )
    text += _traceback(
        "ValueError: c", prefix="(EngineCore pid=2) ERROR 01-28 15:59:44 [core.py:9] "
    )
    assert _named(tmp_path, text)[0].endswith("ValueError: b")


def test_a_client_that_finds_no_server_follows_from_what_ended_the_server(tmp_path: Path) -> None:
    killed = "Nov 22 10:00:00 node kernel: Out of memory: Killed process 77 (python3)"
    refused = (
        "requests.exceptions.ConnectionError: HTTPConnectionPool(host='localhost', port=8000): "
        "Max retries exceeded with url: /health (Caused by: Connection refused)"
    )
    assert _named(tmp_path, f"{killed}\n{_traceback(refused)}")[0] == killed


def test_an_exception_that_is_printed_again_follows_from_the_first(tmp_path: Path) -> None:
    text = _traceback("ValueError: a") + _traceback(
        "ValueError: a", before="EngineCore encountered a fatal error."
    )
    log = tmp_path / "a.log"
    log.write_text(text, "utf-8")
    diagnosis = diagnose([str(log)], load_rules())
    assert diagnosis.cause is not None
    assert diagnosis.cause.place.line == 4

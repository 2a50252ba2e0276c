# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.diagnosis.tracebacks import ChainLink, Traceback, chains, root_of, tracebacks
from tests.support.cases import cases
from tests.support.diagnoses import cause_of, diagnosed

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
POINTER = "RuntimeError: failed. See root cause above."


def _one(exception: str) -> list[str]:
    return ["Traceback (most recent call last):", '  File "x.py", line 1, in f', exception]


@pytest.mark.parametrize(
    ("words", "first", "second", "points", "explains"),
    [
        pytest.param(DIRECT, "TypeError: a", "RuntimeError: b", (60, 60), 0, id="direct cause"),
        # What says much more explains even its direct cause.
        pytest.param(DIRECT, "HTTPError: x", "GatedError: 401", (60, 90), 1, id="says much more"),
        pytest.param(DURING, "StopIteration", "ValueError: no", (60, 60), 1, id="expected"),
        pytest.param(DURING, "KeyError: 'x'", "ValueError: no", (60, 60), 1, id="expected, words"),
        pytest.param(DURING, "_queue.Empty", "ValueError: no", (60, 60), 1, id="expected, module"),
        # What was tried in place of a package that is not there.
        pytest.param(DURING, "ImportError: x", "ValueError: no", (90, 60), 1, id="expected, less"),
        pytest.param(DURING, "RuntimeError: a", "RuntimeError: b", (60, 60), 0, id="unexpected"),
        pytest.param(DURING, "KeyError: 'x'", POINTER, (60, 60), 0, id="a pointer never explains"),
    ],
)
def test_of_two_exceptions_of_a_chain_one_explains_the_other(
    words: str, first: str, second: str, points: tuple[int, int], explains: int
) -> None:
    lines = [*_one(first), "", words, "", *_one(second)]
    (chain,) = chains(tracebacks(lines))
    by_index = dict(zip([2, 8], points, strict=True))
    root = root_of(chain, lines, lambda index: by_index[index])
    assert root.exception == [2, 8][explains]


@pytest.mark.parametrize(
    ("file", "source", "explains"),
    [
        pytest.param("x.py", "raise MissingBackend('x')", 0, id="said again"),
        pytest.param("json/decoder.py", "raise MissingBackend('x')", 1, id="elsewhere"),
        pytest.param("x.py", "start(other_backend)", 1, id="no raise"),
    ],
)
def test_who_catches_an_import_error_may_say_it_again(
    file: str, source: str, explains: int
) -> None:
    second = [*_one("MissingBackend: x")[:1], f'  File "{file}", line 3, in f', f"    {source}"]
    lines = [*_one("ImportError: x"), "", DURING, "", *second, "MissingBackend: x"]
    (chain,) = chains(tracebacks(lines))
    root = root_of(chain, lines, lambda index: 90 if index == 2 else 60)
    assert root.exception == [2, 9][explains]


def test_exceptions_without_a_link_are_chains_of_their_own() -> None:
    lines = [*_one("ValueError: a"), *_one("ValueError: b")]
    assert [len(chain) for chain in chains(tracebacks(lines))] == [1, 1]


FRAME = '  File "serve.py", line 20, in main'


def _named(tmp_path: Path, text: str) -> tuple[str, str | None]:
    """The text and the rule of the line that is named for a log of `text`."""
    diagnosis = diagnosed(tmp_path, text)
    assert diagnosis.best is not None
    assert diagnosis.cause is not None
    return diagnosis.best.text, diagnosis.cause.rule


def _traceback(exception: str, prefix: str = "", before: str = "") -> str:
    lines = [before, "Traceback (most recent call last):", FRAME, "    run()", exception]
    return "".join(f"{prefix}{line}\n" for line in lines if line)


WARNING = "WARNING 01-28 15:59:42 [core.py:9] "
ERROR = "ERROR 01-28 15:59:43 [core.py:9] "
FATAL = "EngineCore encountered a fatal error."
KILLED_SHELL = "./run.sh: line 3:    28 Killed                  python3 -m server\n"
KILLED = "Nov 22 10:00:00 node kernel: Out of memory: Killed process 77 (python3)"
REFUSED = (
    "requests.exceptions.ConnectionError: HTTPConnectionPool(host='localhost', port=8000): "
    "Max retries exceeded with url: /health (Caused by: Connection refused)"
)
RAY = "ray.exceptions.RayTaskError(ValueError): ray::Worker.run() (pid=5)"
TOLERATED_BY_ANOTHER = (
    "(APIServer pid=1) WARNING 01-28 15:59:42 [x.py:3] no kernels, falling back\n"
)
CORE = f"(EngineCore pid=2) {ERROR}"


@cases(
    ("texts", "named"),
    {
        "a tolerated one is weaker than a later one": (
            [
                _traceback("ValueError: a", before="plugin broken, falling back to the slow path"),
                _traceback("ValueError: b"),
            ],
            "ValueError: b",
        ),
        "one logged as a warning is weaker": (
            [_traceback("ValueError: a", WARNING), _traceback("ValueError: b", ERROR)],
            f"{ERROR}ValueError: b",
        ),
        "a request answered with an error is weaker than what ends the server": (
            [
                _traceback("ValueError: a", before="ERROR:    Exception in ASGI application"),
                _traceback("ValueError: b", before=FATAL),
            ],
            "ValueError: b",
        ),
        "of processes that print the same the first counts": (
            [_traceback("ValueError: x", f"(Worker_TP{rank} pid={rank}) ") for rank in range(3)],
            "(Worker_TP0 pid=0) ValueError: x",
        ),
        "a killed entrypoint does not hide the buffered traceback": (
            [KILLED_SHELL, _traceback("KeyError: 'rope_scaling'")],
            "KeyError: 'rope_scaling'",
        ),
        "the inner exception of ray": (
            [_traceback(RAY), f"{FRAME}\n    step()\nValueError: expected 22, got 21\n"],
            "ValueError: expected 22, got 21",
        ),
        "what another process tolerates says nothing of this one": (
            [
                TOLERATED_BY_ANOTHER,
                _traceback("ValueError: b", CORE),
                _traceback("ValueError: c", CORE),
            ],
            f"{CORE}ValueError: b",
        ),
        "a client without a server follows from what ended the server": (
            [f"{KILLED}\n", _traceback(REFUSED)],
            KILLED,
        ),
    },
)
def test_of_all_lines_the_one_nearest_to_the_cause_is_named(
    tmp_path: Path, texts: list[str], named: str
) -> None:
    assert _named(tmp_path, "".join(texts))[0] == named


def test_an_exception_without_a_usual_name_is_named(tmp_path: Path) -> None:
    text, rule = _named(tmp_path, _traceback("engine.errors.Boom: the core is gone"))
    assert (text, rule) == ("engine.errors.Boom: the core is gone", "python/exception")


def test_an_exception_that_a_logger_printed_is_not_said_to_be_uncaught(tmp_path: Path) -> None:
    raised = _traceback("ZeroDivisionError: division by zero")
    logged = f"ERROR:root:metrics failed\n{raised}accuracy 0.41 is below 0.58\n"
    assert _named(tmp_path, raised)[1] == "python/exception"
    assert _named(tmp_path, logged)[1] == "python/logged-exception"


@pytest.mark.parametrize(
    ("file", "rule"), [("serve.py", "python/assertion"), ("test_a.py", "python/test-assertion")]
)
def test_an_assertion_is_a_failed_test_only_in_a_test(tmp_path: Path, file: str, rule: str) -> None:
    text = _traceback("AssertionError: x is odd").replace("serve.py", file)
    assert _named(tmp_path, text)[1] == rule


def test_an_exception_that_is_printed_again_follows_from_the_first(tmp_path: Path) -> None:
    text = _traceback("ValueError: a") + _traceback("ValueError: a", before=FATAL)
    assert cause_of(tmp_path, text).place.line == 4

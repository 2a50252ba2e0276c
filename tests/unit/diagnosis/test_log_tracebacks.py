# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.diagnosis.diagnosis import diagnose, load_rules

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

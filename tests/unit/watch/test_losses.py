# SPDX-License-Identifier: Apache-2.0
"""Which server had ended before its script failed, by made processes."""

import signal
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ci_doctor.watch.judging import Listener, Process
from ci_doctor.watch.losses import Loss, front_at, is_bad_end, loss_of
from tests.unit.watch.test_judging import PORT, process

REFUSED = {PORT: [5.0, 11.0, 11.5]}


SCRIPT = process("bash job.sh", 0.0, ended=12.0, alive=11.99, returncode=1)


def server(returncode: int | None = 1, parent: Process = SCRIPT, **more: Any) -> Process:
    """One in the background that ended after ten seconds."""
    values = {"ended": 10.0, "alive": 9.95, "is_beside": True, "ports": {PORT}, **more}
    return process(f"python server.py {PORT}", 1, parent, returncode=returncode, **values)


def command(words: str, born: float, ended: float, code: int = 1, **more: Any) -> Process:
    return process(words, born, SCRIPT, ended=ended, alive=ended - 0.01, returncode=code, **more)


def loss(
    death: Process,
    *others: Process,
    refused: Mapping[int, Sequence[float]] = REFUSED,
    listeners: Sequence[Listener] = (),
) -> Loss | None:
    ended = death.ended or 0.0
    living = [each for each in others if each.ended is None or each.ended > ended]
    death.front = front_at(death, SCRIPT, living)
    return loss_of(death, (SCRIPT, death, *others), listeners, refused)


def test_a_client_that_failed_after_it_shows_the_loss() -> None:
    pytest_ = command("python -m pytest", 3, 11.9)
    found = loss(server(), pytest_)
    assert found is not None
    assert found.by is pytest_
    assert found.refusals == 2
    assert found.failed_s == pytest.approx(1.9)


def test_a_client_that_listens_itself_shows_the_loss_and_a_server_beside_it_does_not() -> None:
    pytest_ = command("python -m pytest", 3, 11.9, ports={45_000})
    beside = command("python other.py", 2, 11.95, ports={9000}, is_beside=True)
    found = loss(server(), beside, pytest_)
    assert found is not None
    assert found.by is pytest_


def test_of_a_pipe_each_command_is_in_the_foreground() -> None:
    pytest_ = command("python -m pytest", 3.0, 11.9, is_beside=True)
    found = loss(server(), pytest_, command("tee log", 3.01, 11.9, 0))
    assert found is not None
    assert found.by is pytest_


@pytest.mark.parametrize(
    ("code", "is_said"),
    [(1, True), (-signal.SIGSEGV, True), (-signal.SIGKILL, True), (137, True), (0, False), (None, False)]
    + [(-number, False) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]
    + [(143, False)],
)  # fmt: skip
def test_without_a_refusal_the_end_itself_has_to_tell(code: int | None, *, is_said: bool) -> None:
    assert (loss(server(code), command("pytest", 3, 11.9), refused={}) is not None) is is_said


def test_an_end_with_code_0_is_a_loss_if_its_client_was_refused() -> None:
    assert loss(server(0), command("pytest", 3, 11.9)) is not None
    assert loss(server(0), command("sleep 1", 9.2, 10.2, 0)) is None, "no client ran on"


def test_an_earlier_kill_may_have_taken_its_time() -> None:
    assert loss(server(1), command("collect", 9.9, 11.9), refused={}) is None
    assert loss(server(-signal.SIGKILL), command("collect", 8, 11.9), refused={}) is None


@pytest.mark.parametrize("code", [1, -signal.SIGKILL])
def test_a_client_that_no_look_saw_was_refused(code: int) -> None:
    paused = command("sleep 1", 9.2, 10.2, 0)
    found = loss(server(code), paused)
    assert found is not None
    assert found.by is None
    assert loss(server(code), paused, refused={}) is None
    assert loss(server(code), command("sleep 1", 9.9, 10.9, 0)) is None, "a kill, and a pause"
    assert loss(server(code), command("pytest", 3, 9.0), paused) is None, "a check after a clean-up"


@pytest.mark.parametrize(
    ("code", "times", "is_said"),
    [
        (3, [8.0, 9.0, 10.5, 11.5], True),
        (-signal.SIGSEGV, [8.0, 9.0, 10.5, 11.5], True),
        (-signal.SIGTERM, [8.0, 9.0, 10.5, 11.5], False),
        (0, [8.0, 9.0, 10.5, 11.5], False),
        (3, [9.0, 10.5, 11.5], False),
        (3, [0.2, 0.6, 10.5, 11.5], False),
        (3, [8.0, 9.0, 11.5], False),
    ],
)
def test_a_script_that_asks_for_another_port_all_the_time_ended_nobody(
    code: int, times: list[float], *, is_said: bool
) -> None:
    paused = command("sleep 1", 9.9, 10.9, 0)
    assert loss(server(code), paused, refused={9001: times}) is None, "others are refused, too"
    asking = command("curl localhost:9001", 11.4, 11.5, 7)
    found = loss(server(code), paused, asking, refused={9001: times})
    assert (found is not None) is is_said
    assert found is None or (found.other, found.refusals) == (9001, 0)


def test_one_that_ends_after_the_client_failed_was_cleaned_up() -> None:
    assert loss(server(), command("pytest", 3, 9.9)) is None
    assert loss(server(ended=12.1, alive=12.0), command("pytest", 3, 11.9)) is None


def test_who_was_served_again_lost_nothing() -> None:
    again = Listener(port=PORT, since=10.5)
    assert loss(server(), command("pytest", 3, 11.9), listeners=(again,)) is None


def test_who_never_served_is_no_server() -> None:
    assert loss(server(ports=set()), command("pytest", 3, 11.9)) is None


def test_a_test_may_end_the_server_that_it_started() -> None:
    pytest_ = command("pytest", 0.5, 11.9)
    for code, is_said in ((1, False), (-signal.SIGKILL, False), (-signal.SIGSEGV, True)):
        assert (loss(server(code, pytest_), pytest_) is not None) is is_said


def test_who_is_killed_beside_a_command_that_ends_others_was_asked() -> None:
    pytest_ = command("pytest", 3, 11.9)
    assert loss(server(-signal.SIGKILL), pytest_, command("pkill python", 9.9, 10.1, 0)) is None
    beside = command("bash job.sh", 2, 10.1, 0, is_beside=True)
    assert loss(server(-signal.SIGKILL), pytest_, beside) is None


LATER = Listener(port=PORT, since=10.5)
PIPE = ("pipe:[7]",)
CLEANED = command("python -m pytest", 3, 9.5)
PROGRAM = process("python launcher.py", 0.5, SCRIPT, ended=11)


@pytest.mark.parametrize(
    ("death", "others", "listeners", "expected"),
    [
        (server(), (), (), True),
        (server(ports=set()), (), (), True),
        (server(outputs=PIPE), (), (), True),
        (server(ports=set(), outputs=PIPE), (), (), False),
        (server(0), (), (), False),
        (server(-signal.SIGTERM), (), (), False),
        (server(ended=12.5), (), (), False),
        (server(), (), (LATER,), False),
        (server(), (CLEANED,), (), False),
        (server(parent=PROGRAM), (), (), False),
    ],
    ids=[
        "a server",
        "a job that never listened",
        "a server whose log is a pipe",
        "a command of a pipe",
        "code 0",
        "asked to end",
        "after the script",
        "another one serves",
        "a clean-up",
        "of a program that may have ended it",
    ],
)
def test_what_may_be_the_cause_of_a_failed_script(
    death: Process, others: Sequence[Process], listeners: Sequence[Listener], *, expected: bool
) -> None:
    assert is_bad_end(death, SCRIPT, (SCRIPT, death, *others), listeners) is expected

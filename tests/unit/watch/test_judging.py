# SPDX-License-Identifier: Apache-2.0
"""Which ends of a script's processes are worth a word, by made scenes."""

import signal
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from ci_doctor.system.processes.process_table import Kin
from ci_doctor.watch.judging import (
    Listener,
    Process,
    Scene,
    failed_first,
    foreground,
    is_background,
    is_bad,
    is_settled,
    named_ports,
    served_unseen,
    waiting_for,
)
from ci_doctor.watch.watching import Leftovers

PORT = 8000


def process(words: str, born: float = 0.0, parent: Process | None = None, **more: Any) -> Process:
    kin = Kin(pid=int(born * 10) + 100, parent=1, started=0, state="S", threads=1, name="x")
    more.setdefault("ports", set())
    return Process(kin=kin, born=born, parent=parent, words=tuple(words.split()), **more)


SCRIPT = process("bash job.sh")


def server(returncode: int | None = 1, **more: Any) -> Process:
    """One in the background that ended after ten seconds."""
    words = more.pop("words", f"python server.py --port {PORT}")
    values = {"ended": 10.0, "alive": 9.95, "is_beside": True, "returncode": returncode}
    return process(words, 1, SCRIPT, **{**values, **more})


def curls(*times: float) -> list[Process]:
    words = f"curl -s localhost:{PORT}"
    return [process(words, at, SCRIPT, ended=at + 0.01) for at in times]


def scene(death: Process, now: float, *others: Process, **more: Any) -> Scene:
    recent = (SCRIPT, death, *others)
    living = tuple(each for each in recent if each.ended is None)
    values: dict[str, Any] = {"listeners": (), "refused": {}, **more}
    return Scene(now=now, root=SCRIPT, living=living, recent=recent, **values)


def waits(death: Process, now: float, *others: Process, **more: Any) -> bool:
    """Whether somebody waits for `death` in the scene of these."""
    return waiting_for(death, scene(death, now, *others, **more)) is not None


@pytest.mark.parametrize(
    ("words", "ports"),
    [
        ("vllm serve m --port 8000", {8000}),
        ("vllm serve m --port=8000 --max-model-len 4096", {8000}),
        ("curl -sf http://localhost:8000/health", {8000}),
        ("curl 127.0.0.1:8000/health --max-time 5", {8000}),
        ("nc -z localhost 8000", {8000}),
        ("python server.py 8000", {8000}),
        ("timeout 1200 sleep 3600", set()),
        ("python -m http.server 8000", {8000}),
        ("redis-server --port 6379 --maxmemory 1024", {6379}),
        ("bench --base-url http://[::1]:8000", {8000}),
        ("pip install torch==2.11.0 --timeout 1000", set()),
        ("env SERVER_PORT=8001 python s.py", {8001}),
    ],
)  # fmt: skip
def test_a_command_line_names_ports(words: str, ports: set[int]) -> None:
    assert named_ports(tuple(words.split())) == ports


def test_the_text_of_a_shell_names_ports() -> None:
    assert named_ports(("sh", "-c", "exec vllm serve m --port 8000 > log; sleep 9000")) == {8000}


@pytest.mark.parametrize(
    ("returncode", "bad"),
    [(1, True), (0, None), (None, None), (-signal.SIGSEGV, True), (134, True)]
    + [(-number, None) for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT)]
    + [(137, None), (143, None)],
)
def test_an_end_that_may_have_been_asked_for_is_no_fault(
    returncode: int | None, bad: bool | None
) -> None:
    assert is_bad(server(returncode)) is bad


def test_lack_of_memory_is_a_fault() -> None:
    assert is_bad(server(-signal.SIGKILL, oom="the host"))


def test_one_that_is_asked_again_and_again_is_waited_for() -> None:
    death = server(ports={PORT})
    assert not waits(death, 12.0, *curls(11.0, 12.0)), "it may be asked to end"
    waiting = waiting_for(death, scene(death, 13.0, *curls(11.0, 12.0, 13.0)))
    assert waiting is not None
    assert waiting.port == PORT
    assert waiting.by is not None


def test_refused_connections_alone_are_enough() -> None:
    death = server(-signal.SIGSEGV, ports={PORT})
    waiting = waiting_for(death, scene(death, 12.0, refused={PORT: [10.2, 10.6, 11.0]}))
    assert waiting is not None
    assert waiting.refusals == 3


@pytest.mark.parametrize("returncode", [1, -signal.SIGKILL])
def test_a_script_that_sees_once_that_its_server_is_down_waits_for_nothing(returncode: int) -> None:
    death = server(returncode, ports={PORT})
    assert not waits(death, 30.0, *curls(11.0))


def test_a_command_that_a_busy_machine_holds_up_asks_once() -> None:
    death = server(ports={PORT})
    slow = process(f"curl -s localhost:{PORT}", 11, SCRIPT)
    refused = {PORT: [11.9, 12.1]}
    assert not waits(death, 12.5, slow, refused=refused)


def test_one_that_was_killed_has_longer() -> None:
    death = server(-signal.SIGKILL)
    assert not waits(death, 12.0, refused={PORT: [10.2, 11.9]})
    assert waits(death, 14.0, refused={PORT: [10.2, 12.0, 13.9]})


def test_a_port_that_is_served_again_is_waited_for_by_nobody() -> None:
    death = server(ports={PORT})
    again = process("other --here", 10.5, SCRIPT, ports={PORT})
    listener = Listener(port=PORT, since=11.0, owner=again)
    asked = {"refused": {PORT: [10.2, 11.0]}, "listeners": (listener,)}
    assert not waits(death, 12.0, again, **asked)


def test_a_successor_that_still_loads_is_waited_for_instead() -> None:
    death = server(-signal.SIGKILL, ports={PORT})
    successor = process("python server.py --port 8000 --tp 2", 10.1, SCRIPT)
    assert not waits(death, 90.0, successor, refused={PORT: [10.2, 89.0]})


def test_one_of_the_same_program_at_another_port_is_no_successor() -> None:
    death = server()
    decode = process("python server.py --port 8200", 2, SCRIPT, is_beside=True)
    assert waits(death, 12.0, decode, refused={PORT: [10.2, 11.0, 11.9]})


def test_a_port_that_another_has_owned_all_the_time_was_never_served() -> None:
    death = server()
    others = Listener(port=PORT, since=float("-inf"))
    assert waits(death, 12.0, *curls(11.0, 12.0), listeners=(others,))


def test_a_check_that_is_made_again_and_again_is_no_server() -> None:
    words = "python -c check 8000"
    death = process(words, 5, SCRIPT, ended=5.5, returncode=1, is_beside=True)
    later = process(words, 6, SCRIPT, ended=6.5, returncode=1)
    assert not waits(death, 8.0, later, refused={PORT: [5.6, 7.9]})


def test_a_client_is_no_server() -> None:
    death = process(f"curl -s localhost:{PORT}", 5, SCRIPT, ended=5.5, returncode=7, is_beside=True)
    assert not waits(death, 8.0, refused={PORT: [5.6, 7.9]})


def test_a_launcher_whose_daemon_lives_is_no_loss() -> None:
    death = server(0)
    daemon = process("python server.py --port 8000 worker", 2, death, is_orphan=True)
    assert not waits(death, 30.0, daemon, refused={PORT: [11.0, 29.0]})


def test_a_next_step_that_sleeps_once_is_no_wait() -> None:
    death = server(ports={PORT})
    sleeping = process("sleep 60", 10.1, SCRIPT)
    refused = {PORT: [10.2, 15.0]}  # by a poller in the background
    assert not waits(death, 16.0, sleeping, refused=refused)


def test_a_shell_between_two_commands_waits_for_nothing() -> None:
    death = server(-signal.SIGSEGV, ports={PORT})
    refused = {PORT: [10.2, 10.6, 11.0, 11.4]}  # by a poller in the background
    slept = process("sleep 1", 10.3, SCRIPT, ended=11.4)
    assert not waits(death, 11.5, slept, refused=refused)
    assert waits(death, 13.0, slept, refused=refused)


def test_a_grep_of_its_log_waits_for_it() -> None:
    death = server(log="/w/server.log", words="vllm serve m")
    greps = [process("grep -q ready server.log", at, SCRIPT, ended=at) for at in (11.0, 12.0)]
    waiting = waiting_for(death, scene(death, 12.0, *greps))
    assert waiting is not None
    assert waiting.log == "/w/server.log"


def test_refusals_that_nobody_can_place_count_only_without_noise() -> None:
    death = server(0)
    asked = [10.5, 12.0, 13.0, 14.0]
    assert waits(death, 14.0, refused={0: asked})
    noisy = {0: [0.5, *asked]}
    assert not waits(death, 14.0, refused=noisy)


def test_the_foreground_is_the_youngest_child_that_is_no_server() -> None:
    serving = process("python server.py", 3, SCRIPT, ports={PORT})
    sleeping = process("sleep 1", 2, SCRIPT)
    assert foreground(SCRIPT, [SCRIPT, serving, sleeping]) == (SCRIPT, sleeping)


def test_a_command_below_a_subshell_in_the_background_is_in_the_background() -> None:
    subshell = process("bash job.sh", 1, SCRIPT, is_beside=True)
    assert is_background(process("python s.py", 2, subshell))
    assert not is_background(process("python s.py", 2, SCRIPT))
    assert not is_background(process("python s.py", 2, process("timeout 5 x", 2, SCRIPT)))
    assert is_background(process("python s.py", 2, process("python job.py", 2, SCRIPT)))


# --- an end that may have been asked for, and what may look like a wait ---


def test_a_script_that_ended_its_server_may_see_for_a_while_that_it_stays_down() -> None:
    death = server(-signal.SIGKILL, ports={PORT})
    asked = curls(*(10.5 + 0.5 * n for n in range(34)))
    assert not waits(death, 14.5, *asked[:8])
    assert waits(death, 27.0, *asked)
    # The shell waited for another command: it ended nothing.
    paused = process("sleep 1", 9.5, SCRIPT, ended=10.5, alive=10.4)
    assert waits(death, 14.5, paused, *asked[:8])
    # `pkill` is one, and ends it.
    ending = process("pkill python", 9.9, SCRIPT, ended=10.1, alive=10.05)
    assert not waits(death, 14.5, ending, *asked[:8])


def test_a_client_may_have_told_its_server_to_end() -> None:
    shutdown = process(f"curl localhost:{PORT}/shutdown", 9.9, SCRIPT, ended=10.1, alive=10.05)
    asked = curls(*(10.5 + 0.5 * n for n in range(8)))
    for code, is_said in ((0, False), (-signal.SIGKILL, True)):
        death = server(code, ports={PORT})
        assert waits(death, 14.5, shutdown, *asked) is is_said


def test_who_starts_it_again_and_again_is_given_time() -> None:
    loop = process("bash job.sh", 0.5, SCRIPT, is_beside=True)
    death = process("python server.py --port 8000", 1, loop, ended=10.0, returncode=1)
    paused = process("sleep 5", 10.1, loop)
    asked = curls(*range(11, 27))
    assert not waits(death, 15.0, loop, paused, *asked[:5])
    assert waits(death, 27.0, loop, paused, *asked)


def test_one_whose_port_was_served_after_its_end_is_settled() -> None:
    death = server()
    for since, port, is_over in ((11.0, PORT, True), (9.0, PORT, False), (11.0, 9000, False)):
        listener = Listener(port=port, since=since)
        assert is_settled(death, scene(death, 12.0, listeners=(listener,))) is is_over


def test_a_poller_in_the_background_is_no_wait_for_a_server_that_was_ended() -> None:
    job = process("python job.py", 0.5, SCRIPT)
    poller = process("bash job.sh", 2, SCRIPT, is_beside=True)
    refused = {PORT: [10.0 + 0.5 * n for n in range(1, 30)]}
    for code, is_said in ((0, False), (-signal.SIGSEGV, True)):
        death = server(code, ports={PORT})
        assert waits(death, 25.0, job, poller, refused=refused) is is_said


def test_what_failed_beside_a_container_that_loads_was_no_server() -> None:
    asked = curls(*range(9, 40))
    for words, elsewhere, is_said in (
        ("vllm serve m", False, True),
        ("vllm serve m", True, False),
        ("make assets", False, False),
    ):
        death = server(2, words=words)
        assert waits(death, 40.0, *asked, is_elsewhere=elsewhere) is is_said


def test_a_log_of_a_job_that_failed_is_read_by_several_commands_and_none_waits() -> None:
    death = server(2, words="bench run", log="/w/bench.log")
    summary = process("python summary.py bench.log", 10.5, SCRIPT)
    reads = [
        process(f"grep {word} bench.log", at, SCRIPT, ended=at)
        for word, at in (("a", 11), ("b", 12))
    ]
    follows = process("tail --pid=109 -f bench.log", 2, SCRIPT)
    assert not waits(death, 20.0, summary)
    assert not waits(death, 13.0, *reads)
    assert not waits(death, 13.0, follows)
    follows.words = ("tail", "-f", "bench.log")
    assert waits(death, 13.0, follows)


def test_a_program_that_names_the_port_and_asks_nobody_does_not_wait() -> None:
    death = server(ports={PORT})
    plots = process("python plot.py --port 8000", 10.5, SCRIPT)
    for refused, is_said in (({}, False), ({PORT: [10.6, 11.6, 12.6, 13.6]}, True)):
        assert waits(death, 14.0, plots, refused=refused, tells_refusals=True) is is_said


def test_a_client_of_a_server_that_was_stopped_is_no_server_that_died() -> None:
    served = process("server", 0.5, SCRIPT, ended=9.0, ports={PORT}, is_beside=True)
    client = server(1, words="python client.py --port 8000")
    asked = curls(11, 12, 13, 14)
    assert not waits(client, 14.0, served, *asked)


def test_of_two_that_may_be_the_server_the_one_that_looks_like_one_is_it() -> None:
    container = process("sh -c x", 2, is_orphan=True)
    asked = curls(11, 12, 13, 14)
    for words, is_said in (("python -c fails", False), ("vllm serve m", True)):
        death = server(2, words=words)
        assert waits(death, 14.0, container, *asked) is is_said


def test_a_launcher_that_ended_well_is_no_loss_if_a_daemon_lives() -> None:
    death = server(0, words="setsid setsid sh -c server")
    daemon = process("sh -c server", 1.1, is_orphan=True)
    assert not waits(death, 16.0, daemon, *curls(11, 12, 13, 16))


# --- a server that listened, although no look saw it ---


def test_a_launcher_is_not_said_for_the_worker_that_served() -> None:
    job = process("python job.py", 0.5, SCRIPT)
    launcher = process("python launcher.py", 1, job, ended=10.1, alive=10.05, returncode=1)
    worker = process(
        f"python worker.py {PORT}", 1.2, launcher, ended=10.0, returncode=-9, ports={PORT}
    )
    asked = {PORT: [2.0, 3.0, *(10.2 + 0.4 * n for n in range(40))]}
    assert not waits(launcher, 12.5, job, worker, refused={PORT: asked[PORT][:8]})
    assert waiting_for(worker, scene(launcher, 26.5, job, worker, refused=asked)) is not None


@pytest.mark.parametrize(
    ("words", "since", "is_its"),
    [
        (f"python server.py --port {PORT}", 9.8, True),
        ("python server.py --port 9000", 9.8, False),
        (f"python server.py --port {PORT}", float("-inf"), False),
    ],
    ids=["named", "another port", "there before"],
)
def test_a_listener_that_went_with_a_process_was_its_own(
    words: str, since: float, is_its: bool
) -> None:
    lost = Listener(port=PORT, since=since)
    assert served_unseen(server(words=words), [lost]) == ({PORT} if is_its else set())


@pytest.mark.parametrize(
    ("born", "ended", "returncode", "is_first"),
    [
        (1.2, 9.9, 1, True),
        (1.2, 9.9, -signal.SIGKILL, True),
        (1.2, 9.9, 0, False),
        (1.2, 5.0, 1, False),
        (9.0, 9.9, 128, False),
    ],
    ids=["failed", "killed", "ended well", "long before", "ran for a moment"],
)
def test_what_a_launcher_waited_for_is_said_in_its_place(
    born: float, ended: float, returncode: int, is_first: bool
) -> None:
    launcher = server(words="script -c server")
    below = process("python s.py", born, launcher, ended=ended, returncode=returncode)
    first = failed_first(launcher, scene(launcher, 12.0, below))
    assert first is (below if is_first else launcher)


def test_a_target_of_make_that_asks_is_not_about_to_serve() -> None:
    make = process("make -j2", 0.5)
    death = process(f"python server.py --port {PORT}", 1, make, ended=10.0, alive=9.9, returncode=1)
    check = process(f"sh -c until_curl localhost:{PORT}", 1.1, make)
    asked = [process(f"curl localhost:{PORT}", at, check, ended=at + 0.1) for at in (10.5, 11.0)]
    waits = process("sleep 0.5", 11.2, check)
    seen = scene(death, 11.5, make, check, *asked, waits, refused={PORT: [10.5, 11.0]})
    assert waiting_for(death, structs.replace(seen, root=make)) is not None


def test_a_port_that_is_asked_and_refuses_nobody_is_served_elsewhere() -> None:
    client = server(1, words=f"python client.py --port {PORT}")
    asked = curls(11, 12, 13, 14)
    others = Listener(port=PORT, since=float("-inf"))
    for refused, listeners, is_said in (
        ({}, (), False),
        ({PORT: [11.0, 12.0, 13.0]}, (), True),
        ({0: [11.0, 12.0, 13.0]}, (), True),
        ({}, (others,), True),
    ):
        more = {"refused": refused, "listeners": listeners, "tells_refusals": True}
        assert waits(client, 14.0, *asked, **more) is is_said


@pytest.mark.parametrize(
    ("pattern", "count"),
    [("*toy_server.py*", 0), ("*--last", 0), ("python", 0), ("*…*", 1), ("*other.py*", 1)],
)
def test_a_pattern_of_what_may_be_left_is_compared_with_the_whole_command_line(
    pattern: str, count: int
) -> None:
    words = f"/{'a-long-folder/' * 20}python {'/deep' * 40}/toy_server.py --last"
    root, left = SCRIPT, process(words, 2)
    tree: Any = SimpleNamespace(root=root, living={left.pid: left})
    assert len(Leftovers([pattern]).processes(tree, (), 3.0)) == count


def test_a_script_in_the_background_that_asks_for_the_server_it_started_waits_too() -> None:
    inner = process("bash servers.sh", 0.5, SCRIPT, is_beside=True)
    death = process(
        f"python server.py --port {PORT}", 1, inner, ended=10.0, alive=9.9, returncode=1,
        is_beside=True,
    )  # fmt: skip
    other = process("python server.py --port 9000", 1.1, inner, ports={9000}, is_beside=True)
    outer = process("sleep 1", 27.5, SCRIPT)
    asked = [
        process(f"curl -s localhost:{PORT}", at, inner, ended=at + 0.1) for at in range(12, 28, 5)
    ]
    pause = process("sleep 5", 27.3, inner)
    refused = {PORT: [each.born for each in asked]}
    seen = scene(death, 28.0, inner, other, outer, *asked, pause, refused=refused)
    assert waiting_for(death, seen) is not None
    early = structs.replace(seen, now=18.0, refused={PORT: [12.0, 17.0]}, recent=seen.recent[:-3])
    assert waiting_for(death, early) is None, "it may start it again"


@pytest.mark.parametrize("returncode", [0, 1])
def test_a_command_of_a_script_in_the_background_is_no_server(returncode: int) -> None:
    inner = process("bash servers.sh", 0.5, SCRIPT, is_beside=True)
    date = process("date +%s", 9.9, inner, ended=9.92, alive=9.9, returncode=returncode)
    asked = [
        process(f"curl -s localhost:{PORT}", at, inner, ended=at + 0.1) for at in range(12, 40, 5)
    ]
    refused = {PORT: [each.born for each in asked]}
    assert not waits(date, 40.0, inner, *asked, process("sleep 5", 39, inner), refused=refused)


def test_a_shell_that_connects_is_no_server() -> None:
    asked = curls(*range(11, 30))
    for wrapper in ((), ("timeout", "1")):
        text = f"</dev/tcp/127.0.0.1/{PORT}"
        words = (*wrapper, "bash", "-c", text)
        death = structs.replace(server(1), words=words)
        assert not waits(death, 30.0, *asked)


def test_a_short_command_that_ends_well_and_names_no_port_is_no_server() -> None:
    asked = curls(*range(11, 30))
    for born, is_said in ((9.5, False), (1.0, True)):
        death = process("nvidia-smi", born, SCRIPT, ended=10.0, returncode=0, is_beside=True)
        assert waits(death, 30.0, *asked) is is_said


def test_an_orphan_at_another_port_is_not_the_daemon_of_what_ended_well() -> None:
    death = server(0)
    for words, ports, is_said in (
        ("python server.py --port 9000", {9000}, True),
        ("python server.py --port 9000", set(), True),
        ("python worker.py", set(), False),
    ):
        orphan = process(words, 1.1, is_orphan=True, ports=ports)
        assert waits(death, 16.0, orphan, *curls(11, 12, 13, 16)) is is_said

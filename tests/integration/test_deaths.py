# SPDX-License-Identifier: Apache-2.0
"""Which end is a death, whose fault it is, and what is told of it."""

import asyncio
import os
import resource
import signal
import socket
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from ci_doctor.model.facts.launch import FailureKind, ServiceFailure
from ci_doctor.services.group import start_group
from ci_doctor.services.instance import Allowance, EventKind, ServiceEvent
from ci_doctor.services.running import RunningGroup
from ci_doctor.services.spec import ServiceSpec
from tests.support.loop import in_a_loop
from tests.support.scene import TCP, Scene

pytestmark = pytest.mark.integration


def python(source: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(source), *arguments]


# Listens, and tells the pid of its worker; the worker ends as a connection says: by a signal, or with an exit code.
WORKER = """
    import os, signal, socket, sys
    ready, say = os.pipe()
    worker = os.fork()
    if worker == 0:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as a program has it that is not Python
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, lambda *_: os._exit(3))
        os.write(say, b".")
        while True:
            signal.pause()
    os.read(ready, 1)
    server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    while True:
        connection = server.accept()[0]
        connection.sendall(b"%d\\n" % worker)
        connection.close()
"""


async def worker_of(group: RunningGroup) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", group.endpoint.port)
    pid = int(await reader.readline())
    writer.transport.abort()
    return pid


def after(
    scene: Scene, number: signal.Signals, *, limit_s: float = 180.0, **options: object
) -> ServiceFailure | None:
    """The failure when the worker was sent `number`; None if there is none within `limit_s`."""

    async def run() -> ServiceFailure | None:
        spec = ServiceSpec(
            command=python(WORKER, "{port}", str(scene.directory)),
            ready=TCP,
            **options,  # type: ignore[arg-type]
        )
        group = await scene.started(vllm=spec)
        try:
            os.kill(await worker_of(group), number)
            with_worker = await asyncio.wait({group.death}, timeout=limit_s)
            return group.death.result() if with_worker[0] else None
        finally:
            await group.stop()

    return asyncio.run(run())


def test_a_worker_killed_by_a_signal_under_its_living_server_is_a_death(scene: Scene) -> None:
    failure = after(scene, signal.SIGSEGV)
    assert failure is not None
    assert failure.descendant is not None
    assert (failure.kind, failure.signal, failure.was_ready) == (FailureKind.DIED, "SIGSEGV", True)
    assert "vllm lost its process" in failure.message
    assert "lived on" in failure.message
    died = next(event for event in scene.events if event.kind is EventKind.DESCENDANT_DIED)
    assert (died.service, died.pid, died.signal) == ("vllm", failure.descendant.pid, "SIGSEGV")


@in_a_loop
async def test_what_the_system_allows_a_service_is_known(scene: Scene) -> None:
    group = await scene.started(vllm=scene.service("answers"))
    allowed = group.instances["vllm"].allowed
    await group.stop()
    most, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    assert allowed == Allowance(
        user=os.geteuid(), file_bytes=None if most == resource.RLIM_INFINITY else most
    )


@pytest.mark.parametrize(
    ("number", "options", "is_told"),
    [
        pytest.param(signal.SIGUSR1, {}, False, id="it exits by itself"),
        pytest.param(signal.SIGPIPE, {}, True, id="a pipeline ends it"),
        pytest.param(signal.SIGKILL, {"descendants": "ignore"}, False, id="the service says so"),
    ],
)
def test_an_end_of_a_worker_may_be_no_death(
    number: signal.Signals, options: dict[str, str], is_told: bool, scene: Scene
) -> None:
    assert after(scene, number, limit_s=1.5, **options) is None
    assert (EventKind.DESCENDANT_DIED in [event.kind for event in scene.events]) == is_told


def test_a_worker_that_was_there_before_its_server_was_looked_at_is_its_own(scene: Scene) -> None:
    ours = "import os, sys, time; pid = os.fork() or time.sleep(60); open(sys.argv[1], 'w').write(f'{pid} '); time.sleep(60)"
    told = scene.directory / "told"

    async def run() -> ServiceFailure | None:
        loop = asyncio.get_running_loop()
        killed = loop.create_future()

        def kill() -> None:
            os.kill(int(told.read_text()), signal.SIGKILL)
            killed.set_result(None)

        def on_event(event: ServiceEvent) -> None:
            if event.kind is EventKind.STARTED:
                while not (
                    told.exists() and told.read_text().endswith(" ")
                ):  # it forks before anybody has looked
                    os.sched_yield()
                loop.call_soon(kill)

        spec = ServiceSpec(
            command=[sys.executable, "-c", ours, str(told), str(scene.directory)], ready="file:told"
        )
        group = await start_group({"vllm": spec}, ["vllm"], scene.context, on_event)
        if isinstance(group, ServiceFailure):
            return group
        try:
            await killed
            await asyncio.wait({group.death}, timeout=180)
            return group.death.result() if group.death.done() else None
        finally:
            await group.stop()

    failure = asyncio.run(run())
    assert failure is not None
    assert failure.descendant is not None


def test_a_service_may_say_that_any_exit_of_a_worker_is_a_death(scene: Scene) -> None:
    failure = after(scene, signal.SIGUSR1, descendants="exit")
    assert failure is not None
    assert failure.exit_code == 3


def test_a_fatal_line_is_a_death_though_the_process_lives_on(scene: Scene) -> None:
    source = """
        import sys, time
        print("loading", flush=True)
        print("CUDA error: an illegal memory access was encountered", flush=True)
        time.sleep(1000)
    """
    command = python(source, "{port}", str(scene.directory))
    failure = scene.failed(
        vllm=ServiceSpec(command=command, fatal="CUDA error: .*illegal", fatal_grace="50ms")
    )
    assert failure.fatal == "CUDA error: an illegal memory access was encountered"
    assert (failure.kind, failure.exit_code, failure.signal) == (FailureKind.DIED, None, None)


def test_a_process_that_ends_within_the_grace_after_a_fatal_line_tells_by_itself(
    scene: Scene,
) -> None:
    source = """
        import sys
        print("fatal: no", flush=True)
        sys.exit(7)
    """
    command = python(source, "{port}", str(scene.directory))
    failure = scene.failed(vllm=ServiceSpec(command=command, fatal="^fatal", fatal_grace="30s"))
    assert (failure.fatal, failure.exit_code) == (None, 7)


DAEMON = """
    import os, signal, socket, sys
    if os.fork():
        os._exit(0)
    os.setsid()
    server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    if len(sys.argv) > 3:
        with open(sys.argv[2] + "/pid.new", "w") as file:
            file.write(str(os.getpid()))
        os.rename(sys.argv[2] + "/pid.new", sys.argv[2] + "/pid")
    while True:
        server.accept()[0].close()
"""


def test_a_service_that_goes_into_the_background_without_a_pidfile_is_told_so(scene: Scene) -> None:
    failure = scene.failed(
        vllm=ServiceSpec(command=python(DAEMON, "{port}", str(scene.directory)), ready="/never")
    )
    assert "went into the background" in failure.message
    assert "name its pidfile" in failure.message


def daemon(scene: Scene) -> ServiceSpec:
    command = python(DAEMON, "{port}", str(scene.directory), "pidfile")
    return ServiceSpec(
        command=command, ready=TCP, pidfile=str(scene.directory / "pid"), start_timeout="30s"
    )


@in_a_loop
async def test_a_daemon_is_followed_by_its_pidfile_and_its_death_is_an_event(scene: Scene) -> None:
    group = await scene.started(vllm=daemon(scene))
    os.kill(int((scene.directory / "pid").read_text()), signal.SIGKILL)
    failure = await group.death
    await group.stop()
    assert (failure.service, failure.was_ready) == ("vllm", True)
    assert failure.signal in {"SIGKILL", None}, (
        "older kernels do not tell how a process ended that is not our child"
    )


def test_a_pidfile_of_an_earlier_run_that_names_a_stranger_is_not_followed(scene: Scene) -> None:
    (scene.directory / "pid").write_text(str(os.getppid()))
    command = python(DAEMON, "{port}", str(scene.directory))
    spec = ServiceSpec(
        command=command, ready=TCP, pidfile=str(scene.directory / "pid"), start_timeout="700ms"
    )
    failure = scene.failed(vllm=spec)
    assert failure.kind is FailureKind.NOT_READY


# --- groups ---


@in_a_loop
async def test_what_does_not_need_each_other_starts_at_the_same_time(scene: Scene) -> None:
    specs = {name: scene.service("answers") for name in ("a", "b")}
    specs["c"] = scene.service("answers", needs=["a", "b"])
    group = await scene.started(["c"], **specs)
    await group.stop()
    kinds = scene.kinds()
    assert set(kinds[:2]) == {"started a", "started b"}
    assert set(kinds[2:4]) == {"ready a", "ready b"}
    assert kinds[4:6] == ["started c", "ready c"]


@pytest.mark.parametrize("first_to_end", [0, 1], ids=["the earlier one", "the later one"])
def test_what_a_callback_raises_fails_all_groups_of_its_loop_and_then_is_the_callers_again(
    first_to_end: int, scene: Scene
) -> None:
    def raises() -> None:
        raise LookupError("in a callback")

    async def run() -> list[object]:
        loop = asyncio.get_running_loop()
        said: list[object] = []

        def listen(_loop: object, context: dict[str, object]) -> None:
            said.append(context["exception"])

        loop.set_exception_handler(listen)
        groups = [await scene.started(one=scene.service("answers")) for _ in range(2)]
        ending, living = groups[first_to_end], groups[1 - first_to_end]
        await ending.stop()
        loop.call_soon(raises)
        error = await asyncio.wait_for(asyncio.wait({living.death}), 60)
        assert isinstance(living.death.exception(), LookupError), error
        assert not ending.death.done()
        await living.stop()
        assert loop.get_exception_handler() is listen
        return said

    assert [type(each) for each in asyncio.run(run())] == [LookupError]


def test_a_port_taken_by_another_stops_a_group_before_anything_is_started(scene: Scene) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        first = scene.service("answers")
        second = scene.service(
            "answers", str(port), ready=f"http://127.0.0.1:{port}/", needs=["first"]
        )
        failure = scene.failed(["second"], first=first, second=second)
    assert failure.kind is FailureKind.OUTSIDE
    assert f"port {port} is owned by" in failure.message
    assert f"pid {os.getpid()}" in failure.message
    assert scene.events == []
    assert not (scene.directory / "logs").exists()


@in_a_loop
async def test_what_fails_right_after_a_death_is_known_as_its_consequence(scene: Scene) -> None:
    group = await scene.started(
        first=scene.service("answers"), second=scene.service("answers", needs=["first"])
    )
    for name in ("first", "second"):  # before our loop turns again
        os.kill(group.services[name].pid, signal.SIGKILL)
    cause = await group.death
    await group.stop()
    assert group.failures[0] is cause
    assert {failure.service for failure in group.failures} == {"first", "second"}


# --- taking down and starting again ---


def test_a_service_that_is_taken_down_on_purpose_is_no_death_and_can_be_started_again(
    scene: Scene,
) -> None:
    async def run() -> tuple[int, int, bool]:
        group = await scene.started(kv=scene.service("answers"), vllm=scene.service("answers"))
        before = group.services["kv"]
        await group.take_down("kv", signal.SIGKILL)
        assert group.remains("kv") == ()
        assert not group.death.done()
        assert await group.relaunch("kv") is None
        now = group.services["kv"]
        assert (now.port, now.start) == (before.port, 2)
        assert now.pid != before.pid
        os.kill(now.pid, signal.SIGKILL)
        failure = await group.death
        assert failure.service == "kv"
        await group.stop()
        return before.pid, now.pid, group.death.done()

    asyncio.run(run())
    assert scene.log("kv", 2).exists()
    stopped = [
        event for event in scene.events if event.kind is EventKind.STOPPED and event.service == "kv"
    ]
    assert [event.signal for event in stopped] == ["SIGKILL"]


@in_a_loop
async def test_what_a_crash_leaves_behind_is_known_and_stopped(scene: Scene) -> None:
    group = await scene.started(vllm=scene.service("leaves_a_family", ready=TCP))
    await group.take_down("vllm", signal.SIGKILL)
    left = group.remains("vllm")
    await group.stop()
    assert len(left) >= 2


@in_a_loop
async def test_a_service_that_cannot_be_started_again_is_a_failure(scene: Scene) -> None:
    once = "import os, sys; sys.exit(5) if os.path.exists(sys.argv[2] + '/once') else open(sys.argv[2] + '/once', 'w')\n"
    serve = "import socket; s = socket.create_server(('127.0.0.1', int(sys.argv[1])))\nwhile True: s.accept()[0].close()"
    spec = ServiceSpec(
        command=[sys.executable, "-c", once + serve, "{port}", str(scene.directory)], ready=TCP
    )
    group = await scene.started(vllm=spec)
    await group.take_down("vllm", signal.SIGTERM)
    failure = await group.relaunch("vllm")
    await group.stop()
    assert failure is not None
    assert failure.exit_code == 5


# --- stopping ---


def test_a_stopped_process_is_said_to_be_stopped(scene: Scene) -> None:
    failure = scene.failed(vllm=scene.service("stops_itself", ready="/health", start_timeout="1s"))
    assert failure.kind is FailureKind.NOT_READY
    assert "its process is stopped (SIGSTOP)" in failure.message


@in_a_loop
async def test_a_stop_command_is_run_before_the_rest_is_stopped(scene: Scene) -> None:
    told = scene.directory / "told"

    spec = scene.service("answers", stop_command=["sh", "-c", f"echo {{port}} > {told}"])
    group = await scene.started(vllm=spec)
    await group.stop()
    assert told.read_text() == f"{group.endpoint.port}\n"


@in_a_loop
async def test_a_stop_command_that_hangs_holds_nothing_up_for_long(scene: Scene) -> None:
    spec = scene.service("answers", stop_command=["sleep", "1000"])
    group = await scene.started(vllm=spec)
    assert (await group.stop(grace_s=0.3)).duration_s < 60


@in_a_loop
async def test_a_port_that_a_stranger_took_over_is_said_to_be_held(
    scene: Scene, tmp_path: Path
) -> None:
    group = await scene.started(
        vllm=scene.service("answers", released=["port"], release_timeout="200ms")
    )
    port = group.endpoint.port
    await group.take_down("vllm", signal.SIGKILL)
    with socket.create_server(("127.0.0.1", port)):
        held = (await group.stop()).not_released
    assert len(held) == 1
    assert f"pid {os.getpid()}" in held[0]


@in_a_loop
async def test_a_group_given_up_while_it_starts_is_asked_to_end_before_it_is_killed(
    scene: Scene,
) -> None:
    told = scene.directory / "told"
    source = """
        import signal, sys, time
        def end(number, frame):
            open(sys.argv[2], "w").write(signal.Signals(number).name)
            sys.exit(0)
        signal.signal(signal.SIGINT, end)
        print("up", flush=True)
        time.sleep(1000)
    """

    task = asyncio.create_task(
        scene.start(
            vllm=ServiceSpec(
                command=python(source, "{port}", str(told), str(scene.directory)),
                ready="log:never",
            )
        )
    )
    while not (scene.log("vllm").exists() and scene.log("vllm").read_text()):  # noqa: ASYNC110 - nothing tells us
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told.read_text() == "SIGINT"


def test_a_group_given_up_while_it_starts_does_not_wait_for_what_others_hold(scene: Scene) -> None:
    async def run() -> float:
        taken: list[socket.socket] = []

        spec = ServiceSpec(
            command=["sh", "-c", "sleep 1000", str(scene.directory), "{port}"],
            ready="log:never",
            released=["port"],
            release_timeout="600s",
        )
        started = asyncio.get_running_loop().create_future()

        def note(event: ServiceEvent) -> None:
            if event.kind is EventKind.STARTED and event.pid is not None:
                port = int(psutil.Process(event.pid).cmdline()[-1])
                taken.append(socket.create_server(("127.0.0.1", port)))
                started.set_result(None)

        task = asyncio.create_task(start_group({"vllm": spec}, ["vllm"], scene.context, note))
        await started
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        taken[0].close()
        return time.monotonic() - began

    assert asyncio.run(run()) < 60


def test_a_death_is_told_though_no_file_descriptor_is_left(scene: Scene) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    def on_event(event: ServiceEvent) -> None:
        if event.kind is EventKind.STARTED:
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        if event.kind is EventKind.DIED:
            asyncio.get_running_loop().call_soon(resource.setrlimit, resource.RLIMIT_NOFILE, limits)

    async def run() -> RunningGroup | ServiceFailure:
        asyncio.get_running_loop().call_later(
            60.0, resource.setrlimit, resource.RLIMIT_NOFILE, limits
        )
        spec = ServiceSpec(
            command=["sh", "-c", "sleep 0.1", str(scene.directory)],
            ready="file:never",
            start_timeout="50s",
        )
        return await start_group({"vllm": spec}, ["vllm"], scene.context, on_event)

    try:
        failure = asyncio.run(run())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert isinstance(failure, ServiceFailure)
    assert (failure.kind, failure.exit_code) == (FailureKind.DIED, 0), failure.message

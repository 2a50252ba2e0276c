# SPDX-License-Identifier: Apache-2.0
import asyncio
import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from ci_doctor.errors import UsageError
from ci_doctor.model.cause import FailureClass
from ci_doctor.model.facts.launch import FailureKind, ServiceFailure, StopResult
from ci_doctor.model.outcome import Verdict
from ci_doctor.services.failure_cause import older_listener
from ci_doctor.services.findings import evidence_of
from ci_doctor.services.group import start_group
from ci_doctor.services.instance import EventKind, ServiceEvent
from ci_doctor.services.ready import parse_ready
from ci_doctor.services.running import RunningGroup
from ci_doctor.services.spec import LaunchContext, ServiceSpec
from ci_doctor.system.processes.tree import OwnTree
from tests.support.scene import TCP, Scene

pytestmark = pytest.mark.integration

# The beginning of a program of its own: FOLDER COMMAND...
DOCTOR = textwrap.dedent("""
    import asyncio, os, sys
    from pathlib import Path
    from ci_doctor.services.group import start_group
    from ci_doctor.services.spec import LaunchContext, ServiceSpec

    here = Path(sys.argv[1])
    context = LaunchContext(environment=dict(os.environ), directory=here, log_directory=here / "logs")
    spec = ServiceSpec(command=sys.argv[2:], ready="tcp://127.0.0.1:{port}")
""")
DOCTOR_ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path]),
}


async def get(group: RunningGroup, path: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", group.endpoint.port)
    writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
    with contextlib.suppress(ConnectionError):
        await reader.read()
    writer.transport.abort()


def listener(*, on: int = 0) -> socket.socket:
    return socket.create_server(("127.0.0.1", on))


@contextlib.contextmanager
def listening_process(*, own_session: bool = False) -> Iterator[int]:
    """The port at which a process listens that got the environment of now."""
    program = "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"
    words = [sys.executable, "-c", program]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=own_session
    ) as process:
        assert process.stdout
        yield int(process.stdout.readline())
        process.communicate(b"\n")


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder whose path leaves room for a socket's name (107 bytes); pytest's own may not."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


# --- beside each other ---


def test_of_two_groups_at_once_each_is_stopped_alone(scene: Scene) -> None:
    words = shlex.join(scene.words("answers", "{port}"))
    service = scene.service("answers", command=["sh", "-c", f"sleep 1000 & exec {words}"])

    async def run() -> None:
        # The first one is there before the second one's guardian, and the other way round.
        one = await scene.started(one=service)
        other = await scene.started(other=service)
        assert {kin.pid for kin in one.tree.living()}.isdisjoint(
            kin.pid for kin in other.tree.living()
        )
        await one.stop()
        assert not one.tree.living()
        await get(other, "/v1/models")
        assert len(other.tree.living()) == 2
        third = await scene.started(third=service)
        os.kill(third.services["third"].pid, signal.SIGKILL)
        assert (await third.death).service == "third"
        await third.stop()
        assert not other.death.done()
        assert len(other.tree.living()) == 2
        await other.stop()

    asyncio.run(run())
    assert scene.living() == []


# --- being ready ---


def test_a_service_is_started_found_ready_and_stopped(scene: Scene) -> None:
    async def run() -> tuple[RunningGroup, StopResult]:
        group = await scene.started(vllm=scene.service("answers"))
        await get(group, "/v1/models")
        return group, await group.stop()

    group, result = asyncio.run(run())
    assert scene.kinds() == ["started vllm", "ready vllm", "stopping vllm", "stopped vllm"]
    assert result.killed == result.survivors == ()
    assert group.endpoint.base_url == f"http://127.0.0.1:{group.services['vllm'].port}"
    assert not group.death.done()
    stopped = scene.events[-1]
    assert (stopped.signal, stopped.exit_code) == ("SIGINT", None)


def test_a_service_is_probed_and_reached_on_a_further_port_of_its_own(scene: Scene) -> None:
    async def run() -> RunningGroup:
        ready = "http://127.0.0.1:{kv.http.port}/health"
        kv = scene.service("answers", "{kv.http.port}", ports=["http"], ready=ready)
        vllm = scene.service("tells", "{port}", "{kv.port}", "{kv.http.port}", ready=TCP)
        group = await scene.started(kv=kv, vllm=vllm)
        await group.stop()
        return group

    group = asyncio.run(run())
    own, http = group.ports["kv"], group.ports["kv.http"]
    assert own != http
    assert group.endpoint.name == "vllm"
    assert group.services["kv"].base_url == f"http://127.0.0.1:{http}"
    told = json.loads(scene.log("vllm").read_text().splitlines()[0])
    assert told["argv"][1:3] == [str(own), str(http)]


def test_a_service_gets_exactly_its_words_environment_and_folder(scene: Scene) -> None:
    (scene.directory / "inner").mkdir()
    config = '{"kv_connector": "LMCache", "nested": {"port": {port}}}'
    scene.context = LaunchContext(
        environment={"PATH": os.environ["PATH"], "KEEP": "1"},
        directory=scene.directory,
        log_directory=scene.directory / "logs",
        placeholders={"arm": "candidate"},
    )

    async def run() -> RunningGroup:
        spec = scene.service(
            "tells", "{port}", config, "a b", ready=TCP, env={"ARM": "{arm}"}, cwd="inner"
        )
        group = await scene.started(vllm=spec)
        await group.stop()
        return group

    port = asyncio.run(run()).endpoint.port
    told = json.loads(scene.log("vllm").read_text().splitlines()[0])
    assert told["argv"][1:3] == [config.replace("{port}", str(port)), "a b"]
    assert {name: told["environment"].get(name) for name in ("ARM", "KEEP", "HOME")} == {
        "ARM": "candidate",
        "KEEP": "1",
        "HOME": None,
    }
    assert told["cwd"] == str(scene.directory / "inner")


def test_a_flood_on_stdout_holds_nothing_up(scene: Scene) -> None:
    scene.stopped(vllm=scene.service("floods_stdout", "{port}", "50", ready=TCP))
    assert scene.log("vllm").stat().st_size > 50 * 2**20


# --- failing to start ---


def test_a_death_before_ready_is_told_at_once_with_the_root_lines(scene: Scene) -> None:
    failure = scene.failed(vllm=scene.service("dies_with_traceback"))
    assert failure.kind is FailureKind.DIED
    assert (failure.service, failure.exit_code, failure.signal) == ("vllm", 1, None)
    assert failure.message.endswith("before it was ready: exit code 1")
    assert failure.tail[-1] == "ImportError: libcudart.so.12: cannot open shared object file"
    lines = scene.log("vllm").read_text().splitlines()
    assert failure.tail_line is not None
    assert lines[failure.tail_line - 1 : failure.tail_end_line] == list(failure.tail)
    assert failure.log == str(scene.log("vllm"))
    assert scene.kinds() == ["started vllm", "died vllm"]


def test_a_death_is_noticed_within_milliseconds_of_it(scene: Scene) -> None:
    program = "import os, sys, time; os.write(1, b'%d' % time.monotonic_ns()); os._exit(3)"
    delays = []
    for number in range(1, 4):
        scene.failed(vllm=ServiceSpec(command=[sys.executable, "-c", program, "{port}"]))
        died = next(event for event in reversed(scene.events) if event.kind is EventKind.DIED)
        delays.append(died.at - int(scene.log("vllm", number).read_text()) / 1e9)
    assert (
        sorted(delays)[1] < 0.2
    )  # 1 ms when the machine is quiet; a poll of any sensible pace would be above


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (0, "exit code 0; a server must stay in the foreground"),
        (3, "exit code 3"),
        (-9, "killed by SIGKILL (9); ci-doctor did not send that"),
        (-11, "killed by SIGSEGV (11)"),
    ],
)
@pytest.mark.gate(2)
def test_every_end_before_ready_is_a_failure(scene: Scene, code: int, told: str) -> None:
    failure = scene.failed(vllm=scene.service("exits", str(code), "last words"))
    assert failure.kind is FailureKind.DIED
    assert told in failure.message
    assert failure.tail[0].startswith("last words")
    assert failure.exit_code == (code if code >= 0 else None)


def test_a_service_that_never_gets_ready_is_stopped_and_told_with_what_was_seen(
    scene: Scene,
) -> None:
    failure = scene.failed(vllm=scene.service("answers", "{port}", "9999", start_timeout=0.6))
    assert failure.kind is FailureKind.NOT_READY
    assert "was not ready within " in failure.message
    assert failure.message.endswith("HTTP status 503")
    assert (failure.exit_code, failure.signal) == (None, None)


ON_ONE_CPU = "import os, time; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
NEEDS_A_CPU = (
    f"{ON_ONE_CPU} import socket, sys\n"
    "while time.process_time() < 0.2: pass\n"
    "server = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
    "while True: server.accept()[0].close()"
)


@pytest.mark.nightly
def test_a_service_that_others_keep_from_the_cpu_is_not_called_never_ready(scene: Scene) -> None:
    words = [sys.executable, "-c", f"{ON_ONE_CPU} print(flush=True)\nwhile True: pass"]
    # Each in a session of its own: the kernel shares CPUs out by session (sched(7), autogroup).
    others = [
        subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) for _ in range(6)
    ]

    async def run() -> RunningGroup:
        command = [sys.executable, "-c", NEEDS_A_CPU, "{port}", str(scene.directory)]
        # Its 0.2 s of CPU take seven times as long beside six others.
        spec = ServiceSpec(command=command, ready=TCP, start_timeout="1s")
        group = await scene.started(vllm=spec)
        await group.stop()
        return group

    try:
        for other in others:
            assert other.stdout is not None
            other.stdout.readline()
        group = asyncio.run(run())
    finally:
        for other in others:
            other.kill()
            other.communicate()
    assert group.instances["vllm"].was_ready


def test_the_launch_s_own_limit_caps_every_start(scene: Scene) -> None:
    scene.context = msgspec.structs.replace(scene.context, limit_s=0.3)
    assert scene.failed(vllm=scene.service("accepts_and_hangs")).kind is FailureKind.NOT_READY


def test_no_time_left_starts_nothing(scene: Scene) -> None:
    scene.context = msgspec.structs.replace(scene.context, limit_s=0)
    failure = scene.failed(vllm=scene.service("answers"))
    assert failure.message == "vllm was not started: no time is left"
    assert failure.log is None
    assert scene.events == []


def test_an_earlier_service_that_dies_ends_the_wait_for_a_later_one(scene: Scene) -> None:
    async def run() -> RunningGroup | ServiceFailure:
        def kill_kv(event: ServiceEvent) -> None:
            scene.events.append(event)
            if (event.kind, event.service) == (EventKind.STARTED, "vllm"):
                os.kill(next(e.pid for e in scene.events if e.pid is not None), signal.SIGKILL)

        specs = {
            "kv": scene.service("answers"),
            "vllm": scene.service("accepts_and_hangs", needs=["kv"]),
        }
        return await start_group(specs, ["kv", "vllm"], scene.context, kill_kv)

    failure = asyncio.run(run())
    assert isinstance(failure, ServiceFailure)
    assert (failure.service, failure.signal, failure.was_ready) == ("kv", "SIGKILL", True)
    assert "stopped vllm" in scene.kinds()


def test_a_script_that_no_kernel_can_run_is_a_usage_error_and_nothing_is_left(scene: Scene) -> None:
    script = scene.directory / "serve"
    script.write_text("echo no interpreter line\n")
    script.chmod(0o755)
    with pytest.raises(UsageError, match='service "vllm": cannot run') as caught:
        asyncio.run(
            scene.start(
                kv=scene.service("answers"),
                vllm=ServiceSpec(command=f"{script} {{port}}", needs=["kv"]),
            )
        )
    assert "#!" in (caught.value.hint or "")
    assert scene.kinds() == ["started kv", "ready kv", "stopping kv", "stopped kv"]


# --- causes outside ---


def test_a_fixed_port_that_is_taken_is_told_before_anything_starts(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BUILDKITE_JOB_ID", raising=False)
    with listener() as taken:
        port = taken.getsockname()[1]
        failure = scene.failed(
            vllm=scene.service("answers", str(port), ready=f"http://127.0.0.1:{port}/health")
        )
    # By this test, which shares its session with ci-doctor: a job that runs again has it again.
    assert (failure.kind, failure.verdict) == (FailureKind.OUTSIDE, Verdict.FAILED)
    assert f"port {port} is owned by" in failure.message
    assert f"of this job (pid {os.getpid()}" in failure.message
    assert not (scene.directory / "logs").exists()


@pytest.mark.parametrize(("job", "verdict"), [("this", Verdict.FAILED), ("another", Verdict.INFRA)])
def test_a_second_port_is_an_outside_cause_unless_a_process_of_the_job_holds_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, job: str, verdict: Verdict
) -> None:
    monkeypatch.setenv("BUILDKITE_JOB_ID", job)
    with listening_process() as port:
        monkeypatch.setenv("BUILDKITE_JOB_ID", "this")
        failure = scene.failed(vllm=scene.service("binds", "{port}", str(port), ready="/never"))
    assert failure.verdict is verdict
    assert f"port {port} is owned by" in failure.message


def test_a_server_that_takes_its_own_port_twice_is_not_excused(scene: Scene) -> None:
    failure = scene.failed(vllm=scene.service("binds", "{port}", "{port}", ready="/never"))
    assert failure.kind is FailureKind.DIED
    assert "in use" in failure.message


def test_a_full_disk_is_no_outside_cause_on_a_machine_with_space(scene: Scene) -> None:
    failure = scene.failed(
        # The directory of the scene, its last argument, stands for the file.
        vllm=scene.service("exits", "1", "OSError: [Errno 28] No space left on device:")
    )
    assert failure.kind is FailureKind.DIED
    assert failure.message.endswith(
        "exit code 1; by its log a program reports that a disk is full, or a quota used up"
    )


def test_the_cause_may_stand_in_the_log_of_another_service(scene: Scene) -> None:
    says = (
        "import socket, sys, time; print('torch.OutOfMemoryError: CUDA out of memory. Tried to "
        "allocate 2.00 GiB.', flush=True); s = socket.create_server(('127.0.0.1', "
        "int(sys.argv[1]))); time.sleep(600)"
    )
    kv = ServiceSpec(command=[sys.executable, "-c", says, "{port}"], ready=TCP)
    vllm = scene.service("exits", "1", "engine core did not answer")
    failure = scene.failed(kv=kv, vllm=msgspec.structs.replace(vllm, needs=["kv"]))
    assert (failure.kind, failure.service) == (FailureKind.DIED, "vllm")
    assert failure.elsewhere is not None
    assert failure.elsewhere.place.file == str(scene.log("kv"))
    assert failure.elsewhere.class_ is FailureClass.GPU_OUT_OF_MEMORY
    assert any("GPU out of memory" in str(each.excerpt) for each in evidence_of(failure))


@pytest.mark.parametrize(
    ("bound", "ready"),
    [
        ("AF_INET); s.bind(('127.0.0.1', 0)); name = s.getsockname()[1]", "tcp://127.0.0.1:{}"),
        ("AF_UNIX); s.bind('x.sock'); name = 'x.sock'", "unix:{}"),
    ],
)
def test_an_answer_from_an_older_process_is_not_taken_for_the_service_s(
    bound: str, ready: str, short_path: Path
) -> None:
    bound = bound.replace("x.sock", f"{short_path}/x.sock")
    program = f"import socket, sys; s = socket.socket(socket.{bound}; s.listen(); print(name, flush=True); input()"
    words = [sys.executable, "-c", program]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stranger:
        assert stranger.stdout
        # The line comes later than a tick of start times (10 ms): an interpreter has started before it.
        where = stranger.stdout.readline().decode().strip()
        target = parse_ready(ready.format(where), 0, directory=short_path)
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as service:
            strangers_only = OwnTree()
            owner = older_listener(target, service.pid, strangers_only.living)
            service.communicate(b"\n")
        assert older_listener(target, os.getpid(), strangers_only.living) is None, (
            "a younger one may serve for ours"
        )
        stranger.communicate(b"\n")
    assert owner is not None
    assert owner.pid == stranger.pid


# --- dying while in use ---


def test_a_death_in_use_is_an_event_that_a_client_can_wait_for(scene: Scene) -> None:
    async def run() -> ServiceFailure:
        group = await scene.started(kv=scene.service("answers"), vllm=scene.service("answers"))
        try:
            await get(group, "/exit/4")
            return await group.death
        finally:
            await group.stop()

    failure = asyncio.run(run())
    assert (failure.service, failure.exit_code, failure.was_ready) == ("vllm", 4, True)
    assert "while it was in use: exit code 4" in failure.message
    assert scene.kinds()[-3:] == ["died vllm", "stopping kv", "stopped kv"]


# --- stopping ---


def test_stop_leaves_nothing_of_four_kinds_of_orphan(scene: Scene) -> None:
    async def run() -> StopResult:
        group = await scene.started(vllm=scene.service("leaves_a_family", ready=TCP))
        assert len(scene.living()) == 5
        return await group.stop(grace_s=0.1)

    result = asyncio.run(run())
    assert len(result.killed) == 5
    assert result.survivors == ()
    assert result.duration_s < 3
    killed = [event for event in scene.events if event.kind is EventKind.KILLED]
    assert {event.service for event in killed} == {"vllm", None}


def test_orphans_of_a_service_that_crashed_are_stopped_too(scene: Scene) -> None:
    async def run() -> tuple[ServiceFailure, StopResult]:
        group = await scene.started(kv=scene.service("answers"))
        family = [*scene.words("leaves_a_family", "0"), "--die"]
        process = await asyncio.create_subprocess_exec(*family, start_new_session=True)
        assert await process.wait() == 3
        assert len(scene.living()) == 5
        os.kill(group.endpoint.pid, signal.SIGKILL)
        return await group.death, await group.stop(grace_s=0.1)

    failure, result = asyncio.run(run())
    assert failure.signal == "SIGKILL"
    assert len(result.killed) == 4


def test_what_was_there_before_is_left_alone(scene: Scene) -> None:
    family = "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'input()']); print(p.pid, flush=True); p.wait()"
    with subprocess.Popen(
        [sys.executable, "-c", family], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as bystander:
        assert bystander.stdout
        below = int(bystander.stdout.readline())

        async def run() -> None:
            group = await scene.started(vllm=scene.service("answers"))
            await group.stop()

        asyncio.run(run())
        assert bystander.poll() is None
        assert psutil.pid_exists(below)
        bystander.communicate(b"\n")
    assert bystander.returncode == 0


def wait_until_stopped(pid: int) -> None:
    deadline = time.monotonic() + 120
    while (
        psutil.Process(pid).status() != psutil.STATUS_STOPPED
    ):  # it is not our child: nothing tells us
        assert time.monotonic() < deadline
        os.sched_yield()


def test_a_stopped_process_is_woken_to_end_by_itself(scene: Scene) -> None:
    async def run() -> StopResult:
        group = await scene.started(vllm=scene.service("stops_itself", ready=TCP))
        wait_until_stopped(group.endpoint.pid)
        return await group.stop(grace_s=5)

    assert asyncio.run(run()).killed == ()


CRASHES_AT_ITS_STOP = """
import signal, socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
for each in (signal.SIGINT, signal.SIGTERM):
    signal.signal(each, lambda *_: signal.raise_signal(signal.SIGSEGV))
while True:
    server.accept()[0].close()
"""


def test_a_crash_while_a_service_is_stopped_is_a_problem(scene: Scene) -> None:
    words = (sys.executable, "-c", CRASHES_AT_ITS_STOP, "{port}")
    result = scene.stopped(vllm=scene.service("answers", command=words, ready=TCP))
    assert result.problems == ("vllm crashed while it was stopped, by SIGSEGV",)


def test_stopping_again_gives_the_same_answer(scene: Scene) -> None:
    async def run() -> tuple[RunningGroup, StopResult, StopResult]:
        group = await scene.started(vllm=scene.service("answers"))
        first, second = await asyncio.gather(group.stop(), group.stop())
        assert first is second
        return group, first, await group.stop()

    group, first, again = asyncio.run(run())
    assert again is first
    assert group.kill_now() is first
    assert scene.kinds().count("stopped vllm") == 1


def test_cancelling_a_start_leaves_nothing(scene: Scene) -> None:
    async def run() -> None:
        launched = asyncio.Event()

        def on_event(event: ServiceEvent) -> None:
            launched.set()

        specs = {"vllm": scene.service("accepts_and_hangs")}
        task = asyncio.create_task(start_group(specs, ["vllm"], scene.context, on_event))
        await asyncio.wait(
            {task, asyncio.create_task(launched.wait())}, return_when=asyncio.FIRST_COMPLETED
        )
        assert task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert scene.living() == []

    asyncio.run(run())


def test_cancelling_a_stop_kills_at_once(scene: Scene) -> None:
    async def run() -> None:
        group = await scene.started(vllm=scene.service("leaves_a_family", ready=TCP))
        began = time.monotonic()
        task = asyncio.create_task(group.stop(grace_s=600))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < 60
        assert scene.living() == []
        assert (await group.stop()).survivors == ()

    asyncio.run(run())


def test_a_group_can_be_killed_after_its_loop_has_gone(scene: Scene) -> None:
    group = asyncio.run(scene.started(vllm=scene.service("leaves_a_family", ready=TCP)))
    assert len(group.kill_now().killed) == 5


def test_a_listener_to_events_that_fails_leaves_no_process(scene: Scene) -> None:
    def on_event(event: ServiceEvent) -> None:
        if event.kind is EventKind.READY:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        asyncio.run(
            start_group({"vllm": scene.service("answers")}, ["vllm"], scene.context, on_event)
        )


def test_a_death_that_cannot_be_explained_ends_the_start(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci_doctor.services.failure_cause.died", lambda *_: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(scene.start(vllm=scene.service("dies_with_traceback")))
    assert scene.living() == []


def test_an_exit_code_is_known_where_the_parent_ignored_dead_children(scene: Scene) -> None:
    program = DOCTOR + textwrap.dedent("""
        failure = asyncio.run(start_group({"vllm": spec}, ["vllm"], context, lambda event: None))
        print(failure.exit_code)
    """)
    words = [
        "sh",
        "-c",
        "trap '' CHLD; exec \"$@\"",
        "sh",
        sys.executable,
        "-c",
        program,
        str(scene.directory),
    ]
    done = subprocess.run(
        [*words, *scene.words("exits", "3", "{port}")],
        env=DOCTOR_ENVIRONMENT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "3\n"


@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
def test_an_interrupted_program_leaves_nothing(scene: Scene, twice: bool) -> None:
    program = DOCTOR + textwrap.dedent("""
        async def main():
            group = await start_group({"vllm": spec}, ["vllm"], context, lambda event: print(event.kind, flush=True))
            try:
                print("running", flush=True)
                await asyncio.Event().wait()
            finally:
                print("finally", flush=True)
                await group.stop()

        asyncio.run(main())
    """)
    words = [
        sys.executable,
        "-c",
        program,
        str(scene.directory),
        *scene.words("leaves_a_family", "{port}"),
    ]
    with subprocess.Popen(
        words, env=DOCTOR_ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as doctor:
        assert doctor.stdout
        assert [doctor.stdout.readline() for _ in range(3)] == ["started\n", "ready\n", "running\n"]
        doctor.send_signal(signal.SIGINT)
        if twice:
            assert [doctor.stdout.readline() for _ in range(2)] == ["finally\n", "stopping\n"]
            doctor.send_signal(signal.SIGINT)
        doctor.communicate(timeout=180)
    assert scene.living() == []

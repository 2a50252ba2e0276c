# SPDX-License-Identifier: Apache-2.0
"""Probes with real processes: commands that are run, logs that are written, servers that hang or speak TLS."""

import asyncio
import contextlib
import itertools
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from ci_doctor.errors import UsageError
from ci_doctor.services.probe import ProbeContext, wait_until_ready
from ci_doctor.services.ready import ReadinessProbe, ReadySpec, grpc_line, parse_ready
from ci_doctor.system import clock
from ci_doctor.system.guardian import Guardian
from ci_doctor.system.processes.process import Child
from ci_doctor.system.processes.tree import OwnTree
from tests.support.pace import start_s

pytestmark = pytest.mark.integration

PROGRAMS = Path(__file__).parents[1] / "support" / "programs"
LIMIT_S = 180.0  # guards against hanging only


class Commands:
    """Runs the commands of exec probes as a launch does, and counts them."""

    def __init__(self, guardian: Guardian, directory: Path) -> None:
        self.guardian = guardian
        self.directory = directory
        self.children: list[Child] = []

    def spawn(self, words: Sequence[str], output: int) -> Child:
        child = self.guardian.spawn(
            words, environment=dict(os.environ), directory=self.directory, output=output
        )
        self.children.append(child)
        return child

    def ask(
        self,
        ready: str | ReadySpec,
        limit_s: float = LIMIT_S,
        on_seen: Callable[[str], None] = print,
    ) -> str | None:
        probe = parse_ready(ready, 0, directory=self.directory)
        return asyncio.run(
            wait_until_ready(probe, limit_s, ProbeContext(spawn=self.spawn), on_answer=on_seen)
        )

    def living(self) -> list[int]:
        return [child.pid for child in self.children if psutil.pid_exists(child.pid)]


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    guardian = Guardian.start()
    tree = OwnTree(guardian)
    try:
        yield Commands(guardian, tmp_path)
        assert tree.kill(5.0).survivors == ()
    finally:
        guardian.close()
    assert len(os.listdir("/proc/self/fd")) <= descriptors  # noqa: PTH208


def python(program: str) -> ReadySpec:
    return ReadySpec(exec=[sys.executable, "-c", program], attempt_timeout="10s")


def test_a_command_is_ready_when_it_exits_with_0(commands: Commands) -> None:
    told: list[str] = []

    def seen(text: str) -> None:
        told.append(text)
        if len(told) == 2:
            (commands.directory / "up").touch()

    assert commands.ask(python("import os; os.stat('up')"), on_seen=seen) is None
    assert len(commands.children) == 3
    assert "ended with exit code 1: FileNotFoundError" in told[0]
    assert commands.living() == []


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("print('no'); print('not yet', end=''); exit(3)", "ended with exit code 3: not yet"),
        ("exit(3)", "ended with exit code 3"),
        (
            "import os; os.write(2, b'x' * 9999 + b'\\n\\xff bad'); os.abort()",
            "killed by SIGABRT (6): \ufffd bad",
        ),
    ],
)
def test_what_a_command_said_last_is_told(commands: Commands, program: str, told: str) -> None:
    seen: list[str] = []
    commands.ask(ReadySpec(exec=[sys.executable, "-c", program]), 2.0, on_seen=seen.append)
    # Not the last one: the attempt at the end of the time is cut short.
    assert any(text.endswith(told) for text in seen), seen


def test_a_command_that_hangs_is_killed_when_its_attempt_is_over(commands: Commands) -> None:
    program = "import sys, time; print('asking', flush=True); time.sleep(600)"
    spec = ReadySpec(exec=[sys.executable, "-c", program], attempt_timeout="1s")
    told: list[str] = []
    seen = commands.ask(spec, 1.5, on_seen=told.append)
    assert told[0].endswith("did not end within 1 s: asking")
    assert "did not end within" in (seen or "")
    assert commands.living() == []


def test_what_a_command_said_beats_the_run_that_the_deadline_cut(
    commands: Commands, tmp_path: Path
) -> None:
    once = "[ -e once ] && exec sleep 600; : > once; echo denied; exit 3"
    seen: list[str] = []
    problem = commands.ask(ReadySpec(exec=["sh", "-c", once]), 1.5, on_seen=seen.append)
    assert (tmp_path / "once").exists()
    # On a busy machine the last attempt has its full time, and what became of it follows.
    assert (problem or "").startswith("sh ended with exit code 3: denied")


def test_a_command_is_killed_when_the_wait_is_cancelled(commands: Commands) -> None:
    async def run() -> None:
        started = asyncio.Event()

        def spawn(words: Sequence[str], output: int) -> Child:
            started.set()
            return commands.spawn(words, output)

        probe = parse_ready("exec:sleep 600", 0, directory=commands.directory)
        asking = asyncio.create_task(wait_until_ready(probe, LIMIT_S, ProbeContext(spawn=spawn)))
        await started.wait()
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asking

    asyncio.run(run())
    assert len(commands.children) == 1
    assert commands.living() == []


def test_a_slow_command_is_not_run_more_than_half_the_time(commands: Commands) -> None:
    ended: list[float] = []
    commands.ask("exec:sleep 0.3; false", 0, on_seen=print)  # no shell: `;` is a word for sleep
    assert len(commands.children) == 1
    spec = ReadySpec(exec=["sh", "-c", "sleep 0.3; exit 1"])

    def seen(text: str) -> None:
        if "ended with" in text:  # an attempt that time cut short took less, and so did its pause
            ended.append(clock.now())

    commands.ask(spec, 1.5, on_seen=seen)
    assert all(later - earlier >= 0.55 for earlier, later in itertools.pairwise(ended))


@pytest.mark.parametrize("command", ["exec:no-such-command", "exec:/etc/hostname"])
def test_a_command_that_can_never_run_is_a_usage_error(commands: Commands, command: str) -> None:
    with pytest.raises(UsageError, match="cannot run"):
        commands.ask(command)


# --- logs that somebody else writes ---


def probe_of(ready: str | ReadySpec) -> ReadinessProbe:
    return parse_ready(ready, 0, directory=Path())


def test_a_line_in_a_log_is_noticed_at_once(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "for step in range(3): print('loading', step, flush=True); time.sleep(0.2)\n"
        "sys.stdout.write('\\x1b[32mready\\x1b[0m at %f' % time.monotonic()); sys.stdout.flush(); time.sleep(60)"
    )
    log = tmp_path / "log"
    probe = probe_of("log:ready at \\d+\\.\\d+")

    async def run() -> tuple[str | None, float]:
        return await wait_until_ready(probe, LIMIT_S, ProbeContext(log=log)), clock.now()

    with (
        log.open("wb") as output,
        subprocess.Popen([sys.executable, "-c", program], stdout=output, stderr=output) as process,
    ):
        try:
            seen, at = asyncio.run(run())
        finally:
            process.kill()
    assert seen is None
    assert at - float(log.read_text().split()[-1]) < 0.1 + start_s(tmp_path)


def test_a_server_on_loopback_may_have_made_its_certificate_itself(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl to make a certificate with")
    make = (
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=nobody"
    )
    words = [openssl, *make.split(), "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nready")
        writer.close()

    async def run() -> str | None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
            port = server.sockets[0].getsockname()[1]
            return await wait_until_ready(
                probe_of(ReadySpec(http=f"https://localhost:{port}/", body="ready")), LIMIT_S
            )

    assert asyncio.run(run()) is None


GRPC = """
import sys
from concurrent import futures
import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
server, service = grpc.server(futures.ThreadPoolExecutor(1)), health.HealthServicer()
health_pb2_grpc.add_HealthServicer_to_server(service, server)
service.set("", health_pb2.HealthCheckResponse.NOT_SERVING)
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
sys.stdin.readline()
service.set("", health_pb2.HealthCheckResponse.SERVING)
sys.stdin.read()
"""


@pytest.mark.nightly
def test_the_line_for_grpc_health_tells_serving_from_not_serving(commands: Commands) -> None:
    pytest.importorskip("grpc_health.v1.health", reason="needs grpcio-health-checking")
    with subprocess.Popen(
        [sys.executable, "-c", GRPC], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        stdin = server.stdin
        assert stdin is not None
        assert server.stdout is not None
        line = grpc_line(f"127.0.0.1:{server.stdout.readline().strip()}")
        line = line.replace("python3", sys.executable, 1)
        seen: list[str] = []

        def on_seen(text: str) -> None:
            seen.append(text)
            stdin.write("\n")
            stdin.flush()

        assert commands.ask(line, on_seen=on_seen) is None
    assert seen[0].endswith("ended with exit code 1: not serving")

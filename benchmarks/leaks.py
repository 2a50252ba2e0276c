# SPDX-License-Identifier: Apache-2.0
"""What about twenty real servers leave behind when they are stopped, and what the ledger says of it.

    python benchmarks/leaks.py                 prints a row for each program, and OK or MISS
    python benchmarks/leaks.py --only redis    those whose name holds this word
    python benchmarks/leaks.py --record        also appends the rows to benchmarks/RESULTS.md

Each is started and stopped by ci-doctor. Beside the ledger stands a look of our own: what is new in /dev/shm, the
temporary folder, System V's tables and the program's own folder (sockets). A thing that is new and not reported is
"unknown" if nothing ties it to the program. MISS: the ledger names what is not there, or nothing where something is.
"""

import argparse
import asyncio
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from leaking.programs import PACKAGES, PROGRAMS, Program
from startup import RESULTS

from ci_doctor.model.service import LeftKind, LeftThing, ServiceFailure, StopResult
from ci_doctor.services.group import start_group
from ci_doctor.services.spec import LaunchContext, ServiceSpec

TOOLS = Path.home() / ".cache" / "ci-doctor-benchmark" / "leaks"
APPS = Path(__file__).parent / "leaking"
IPCRM = ("shm", "sem", "msg")
SHARED = Path("/dev/shm")
PATH = f"{os.environ['PATH']}:/usr/lib/postgresql/15/bin:/usr/sbin"
NGINX = """
error_log {work}/error.log; pid {work}/nginx.pid; worker_processes 2;
events {{}}
http {{ access_log off; server {{ listen 127.0.0.1:{port}; listen unix:{work}/nginx.sock; }} }}
"""
POSTGRES = """
set -e
chown postgres "$2"
runuser -u postgres -- initdb -D "$2/data" -A trust >/dev/null
exec runuser -u postgres -- postgres -D "$2/data" -p "$1" -k "$2"
"""


def installed() -> Path:
    """The folder with the tools of an environment of its own."""
    if not (TOOLS / "bin" / "uvicorn").exists():
        subprocess.run([sys.executable, "-m", "venv", TOOLS], check=True)
        subprocess.run([TOOLS / "bin" / "pip", "-q", "install", *PACKAGES], check=True)
    return TOOLS / "bin"


def there(work: Path) -> set[str]:
    """What is there now, by a look of our own."""
    found = {entry.path for folder in (SHARED, work / "tmp") for entry in os.scandir(folder)}
    for table in IPCRM:
        for line in Path(f"/proc/sysvipc/{table}").read_text().splitlines()[1:]:
            found.add(f"{table} {line.split()[1]}")
    for path in work.rglob("*"):
        if stat.S_ISSOCK(path.lstat().st_mode):
            found.add(str(path))
    return found


async def stopped(program: Program, work: Path, tools: Path) -> StopResult | str:
    """Start it and stop it; why it did not start, if it did not."""

    def filled(text: str) -> str:
        for name, value in (("work", work), ("bin", tools), ("apps", APPS)):
            text = text.replace(f"{{{name}}}", str(value))
        return text

    spec = ServiceSpec(
        command=[filled(word) for word in program.words],
        ready=filled(program.ready),
        env={name: filled(value) for name, value in program.env},
        start_timeout="60s",
        descendants="ignore" if program.may_lose else "signal",
    )
    context = LaunchContext(
        # The temporary folder is one that others might use too: what is new there proves nothing.
        environment={**os.environ, "PATH": PATH, "TMPDIR": str(work / "tmp")},
        directory=work,
        log_directory=work / "logs",
    )
    if program.name == "nginx":
        spec = with_nginx(spec, work)
    group = await start_group({"api": spec}, ["api"], context, lambda _: None)
    if isinstance(group, ServiceFailure):
        return group.message
    return await group.stop()


def with_nginx(spec: ServiceSpec, work: Path) -> ServiceSpec:
    """Its port stands in a file, so that a shell writes it."""
    text = NGINX.format(work=work, port="$1")
    script = f'cat > {work}/nginx.conf <<END\n{text}\nEND\nshift; exec "$@"'
    words = ["sh", "-c", script, "sh", "{port}", *spec.words()]
    return ServiceSpec(command=words, ready=spec.ready, start_timeout="60s")


def row(program: Program, tools: Path) -> list[str]:
    """Name, what is new, what was reported, what was killed, seconds of the stop, OK or MISS."""
    for need in program.needs:
        if shutil.which(need, path=PATH) is None:
            return [program.name, f"{need} is not installed", "", "", "", "skipped"]
    with tempfile.TemporaryDirectory(prefix="trial-of-") as folder:
        work = Path(folder)
        work.chmod(0o755)
        (work / "tmp").mkdir()
        (work / "postgres.sh").write_text(POSTGRES)
        before = there(work)
        result = asyncio.run(stopped(program, work, tools))
        if isinstance(result, str):
            return [program.name, result, "", "", "", "MISS"]
        return compared(program, result, there(work) - before, work)


def compared(program: Program, result: StopResult, new: set[str], work: Path) -> list[str]:
    """The row of a program: the ledger beside what is new, without what others made in /dev/shm."""
    things = result.left_behind.things
    unknown = sum(result.left_behind.unknown.values())
    reported = {as_found(thing) for thing in things}
    missed = new - reported
    is_right = reported <= new and len(missed) <= unknown
    killed = ", ".join(process.name for process in result.killed)
    said = [f"{thing.kind} {shortened(thing.name, work)}" for thing in things]
    if unknown:
        said.append(f"{unknown} unknown")
    for thing in things:
        subprocess.run(shlex.split(thing.remedy or "true"), check=False)
    return [
        program.name,
        ", ".join(shortened(name, work) for name in sorted(new)) or "nothing",
        ", ".join(said) or "nothing",
        killed,
        f"{result.duration_s:.2f}",
        "OK" if is_right else "MISS",
    ]


def as_found(thing: LeftThing) -> str:
    """The name of a reported thing as our own look has it."""
    tables = {
        LeftKind.SYSV_SHARED_MEMORY: "shm",
        LeftKind.SYSV_SEMAPHORES: "sem",
        LeftKind.SYSV_QUEUE: "msg",
    }
    if thing.kind in tables:
        return f"{tables[thing.kind]} {thing.name}"
    return thing.name


def shortened(name: str, work: Path) -> str:
    """Without the folder of the trial."""
    return name.replace(f"{work}/", "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="programs whose name holds this word")
    parser.add_argument("--record", action="store_true", help="append the rows to RESULTS.md")
    arguments = parser.parse_args()
    tools = installed()
    head = ["program", "new after the stop", "reported", "killed", "stop, s", ""]
    rows = []
    for program in PROGRAMS:
        if arguments.only in program.name:
            rows.append(row(program, tools))
            sys.stdout.write(" | ".join(rows[-1]) + "\n")
            sys.stdout.flush()
    if arguments.record:
        record(head, rows)
    return int(any(cells[-1] == "MISS" for cells in rows))


def record(head: list[str], rows: list[list[str]]) -> None:
    lines = [
        f"\n## {datetime.now(UTC):%Y-%m-%d}: what real programs leave behind\n",
        f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} CPUs\n",
        "| " + " | ".join(head) + " |",
        "|---|---|---|---|--:|---|",
        *("| " + " | ".join(cells) + " |" for cells in rows),
    ]
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())

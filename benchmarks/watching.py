# SPDX-License-Identifier: Apache-2.0
"""Whether `run --watch` is silent about jobs that are well, and says at once what is not.

`python benchmarks/watching.py healthy|faults [--seeds A-B] [--jobs N]`: scripts made by seed
`python benchmarks/watching.py odd [--only NAME]`: odd scripts, each healthy and with each fault
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.results import record
from benchmarks.watching import odd, public, scripts

SERVER = f"{sys.executable} {Path(__file__).parents[1] / 'tests/support/programs/toy_server.py'}"
OURS = ("ci-doctor", "run", "--watch", "--determinism", "off", "--report-dir", "report")
NOTE = "server.pid"
_PORTS = iter(range(20_000 + os.getpid() % 5000, 32_000))
FAULTS = {
    "dies before ready": "--before",
    "dies before ready, code 0": "--before --code 0",
    "killed before ready": "--before --signal 9",
    "dies under load": "--end 2",
    "crashes under load": "--end 2 --signal 11",
    "killed under load": "--end 2 --signal 9",
}

ODD_FAULTS = ("dies before ready", "dies under load", "killed under load")


class Row(NamedTuple):
    """What became of one job."""

    seed: int
    name: str
    parts: tuple[str, ...]
    status: int
    plain: int | None
    seconds: float
    deaths: list[str]
    said_s: float | None
    cpu_share: float
    stderr: str
    server: int | None


def free_port() -> int:
    """A port that no earlier call gave, below those that the kernel gives to clients (ip(7))."""
    for port in _PORTS:
        with contextlib.suppress(OSError), socket.socket() as found:
            found.bind(("127.0.0.1", port))
            return port
    raise SystemExit("no port is free")


def run(
    seed: int, name: str, job: scripts.Script, *, plain: bool, extra: tuple[str, ...] = ()
) -> Row:
    """One job in a folder of its own, and the same without a watch if `plain`."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for file, text in job.files.items():
            (place / file).parent.mkdir(exist_ok=True)
            (place / file).write_text(text)
            (place / file).chmod(0o755)
        status = None
        if plain:
            with subprocess.Popen(
                job.command,
                cwd=place,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            ) as process:
                status = process.wait()
                _end(place)
        begin = time.monotonic()
        with (
            (place / "err").open("wb") as err,
            subprocess.Popen(
                [*OURS, *extra, "--", *job.command],
                cwd=place,
                stdout=subprocess.DEVNULL,
                stderr=err,
                start_new_session=True,
            ) as process,
        ):
            code = process.wait()
        length = time.monotonic() - begin
        _end(place)
        watch = json.loads((place / "report" / "report.json").read_text())["facts"]["watch"]
        deaths = [f"{each['failure']['message']} | {each['waits']}" for each in watch["deaths"]]
        said = watch["deaths"][0]["said_s"] if watch["deaths"] else None
        if watch.get("problem"):
            deaths.append(f"PROBLEM {watch['problem']}")
        stderr = (place / "err").read_text(errors="replace")
        note = place / NOTE
        return Row(
            seed,
            name,
            job.parts,
            code,
            status,
            length,
            deaths,
            said,
            watch["cpu_s"] / length,
            stderr,
            int(note.read_text()) if note.exists() else None,
        )


def _end(place: Path) -> None:
    """Kill what a job has left: all whose directory is its folder."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if str((entry / "cwd").readlink()).startswith(str(place)):
                    os.kill(int(entry.name), signal.SIGKILL)
            except OSError:
                continue


def public_row(script: public.Public, fault: str, mirrors: Path | None, limit_s: float) -> str:
    """One public script with one fault: with a watch that ends it, and without."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        repository = public.fetch(script, folder, mirrors)
        programs = public.prepare(folder)
        environment = {
            **os.environ,
            "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            f"FAULT_{script.port}": public.FAULTS[fault],
            "OUT_DIR": str(folder / "out"),
        }
        words = shlex.join([*OURS, "--on-death", "end"])
        code, watched = public.run(f"{words} -- {script.command}", folder, environment, limit_s)
        said = "nothing"
        if code is not None:
            report = json.loads((folder / "report" / "report.json").read_text())
            deaths = report["facts"]["watch"]["deaths"]
            said = next((each["failure"]["message"] for each in deaths), said)
        status, plain = public.run(script.command, folder, environment, limit_s)
        bound = "at least " if status is None else ""
        return f"| {script.name} ({repository}) | {fault} | {bound}{plain:.0f} s ({status}) | {watched:.0f} s ({code}) | {said} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["healthy", "faults", "odd", "public"])
    parser.add_argument("--seeds", default="0-199")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--on-death", default="say")
    parser.add_argument("--mirrors", type=Path)
    parser.add_argument("--only", default="", help="the public scripts with this in their name")
    parser.add_argument("--limit", type=float, default=700.0)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    if options.what == "public":
        compare_public(options)
    elif options.what == "odd":
        run_odd(options)
    else:
        run_seeds(options)


def compare_public(options: argparse.Namespace) -> None:
    """A table of public scripts, each with each fault."""
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        calls = [
            pool.submit(public_row, script, fault, options.mirrors, options.limit)
            for script in public.PUBLIC
            if options.only in script.name
            for fault in public.FAULTS
        ]
        head = [
            "| script | fault | without | with --on-death end | said |",
            "|---|---|--:|--:|---|",
        ]
        lines = [*head, *(call.result() for call in calls)]
    print(*lines, sep="\n")
    if options.record:
        record("public scripts below `run --watch`", lines, _load())


def run_seeds(options: argparse.Namespace) -> None:
    """Scripts by seed; those that are wrong, and what was said of a fault."""
    first, last = map(int, options.seeds.split("-"))
    seeds = range(first, last + 1)
    names = list(FAULTS)
    calls = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for seed in seeds:
            if options.what == "healthy":
                job = scripts.script(seed, free_port(), SERVER, sys.executable)
                calls.append(pool.submit(run, seed, "healthy", job, plain=seed % 4 == 0))
            else:
                name = names[seed % len(names)]
                job = scripts.script(seed, free_port(), SERVER, sys.executable, FAULTS[name], 30)
                extra = ("--on-death", options.on_death)
                calls.append(pool.submit(run, seed, name, job, plain=False, extra=extra))
        rows = [call.result() for call in concurrent.futures.as_completed(calls)]
    rows.sort()
    said = [row for row in rows if row.deaths]
    wrong = said if options.what == "healthy" else [row for row in rows if not row.deaths]
    for row in wrong:
        print(
            row.seed, row.name, row.parts, "status", row.status, f"{row.seconds:.1f} s", row.deaths
        )
    for row in rows:
        if row.plain is not None and row.plain != row.status:
            print("ANOTHER STATUS", row.seed, row.parts, row.plain, row.status)
        if options.what == "faults" and row.deaths:
            print(
                f"{row.seed} {row.name}: said at {row.said_s} s of {row.seconds:.1f}",
                row.parts,
                row.deaths[0][-150:],
            )
    summary = (
        f"{len(rows)} jobs (seeds {options.seeds}), {len(said)} with a death said; "
        f"CPU share at most {max(row.cpu_share for row in rows):.3f}"
    )
    print(summary)
    if options.record:
        record(f"`run --watch`, {options.what} jobs by seed", [f"- {summary}"], _load())


def run_odd(options: argparse.Namespace) -> None:
    """Each odd script, well and with each fault: what was said, and whether of its server."""
    server = f"{SERVER} --note {NOTE}"
    faults = {"healthy": "", **{name: FAULTS[name] for name in ODD_FAULTS}}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        calls = []
        for number, name in enumerate(odd.NAMES):
            for fault, words in faults.items():
                job = odd.script(name, free_port(), server, sys.executable, words)
                if options.only in name:
                    calls.append(
                        pool.submit(
                            run, number, fault, job, plain=not words, extra=("--on-death", "end")
                        )
                    )
        rows = sorted(call.result() for call in calls)
    wrong = [row for row in rows if not _is_right(row)]
    for row in wrong:
        print(
            row.parts[0], "|", row.name, "| status", row.status, row.plain, f"{row.seconds:.1f} s",
            "server", row.server, row.deaths,
        )  # fmt: skip
        print("".join(f"    {line}\n" for line in row.stderr.splitlines()[-6:]))
    healthy = [row for row in rows if row.name == "healthy"]
    late = [row.said_s for row in rows if row.said_s is not None]
    summary = (
        f"{len(healthy)} odd scripts: {sum(bool(row.deaths) for row in healthy)} false alarms, "
        f"{sum(row.plain != row.status for row in healthy)} with another exit code; "
        f"{len(rows) - len(healthy)} with a fault: {sum(map(_is_right, rows)) - sum(map(_is_right, healthy))} "
        f"said of the right process, at the latest {max(late, default=0):.0f} s after the start"
    )
    print(summary)
    if options.record:
        names = ", ".join(odd.NAMES)
        record("`run --watch`, odd scripts", [f"- {summary}", f"- {names}"], _load())


def _is_right(row: Row) -> bool:
    if row.name == "healthy":
        return not row.deaths and row.plain == row.status
    when = "before it was ready" if "before" in row.name else "while it was in use"
    return len(row.deaths) == 1 and f"(pid {row.server}) died" in row.deaths[0] and when in row.deaths[0]


def _load() -> str:
    return f", load {os.getloadavg()[2]:.0f} in the last 15 minutes"


if __name__ == "__main__":
    main()

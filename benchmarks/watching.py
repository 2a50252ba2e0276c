# SPDX-License-Identifier: Apache-2.0
"""Whether `run --watch` is silent about jobs that are well, and says at once what is not.

`python benchmarks/watching.py healthy|faults [--seeds A-B] [--jobs N]`
"""

import argparse
import concurrent.futures
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
from benchmarks.watching import public, scripts

SERVER = f"{sys.executable} {Path(__file__).parents[1] / 'tests/support/programs/toy_server.py'}"
OURS = ("ci-doctor", "run", "--watch", "--determinism", "off", "--report-dir", "report")
FAULTS = {
    "dies before ready": "--before",
    "dies before ready, code 0": "--before --code 0",
    "killed before ready": "--before --signal 9",
    "dies under load": "--end 2",
    "crashes under load": "--end 2 --signal 11",
    "killed under load": "--end 2 --signal 9",
}


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


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def run(
    seed: int, name: str, fault: str, seconds: float, *, plain: bool, extra: tuple[str, ...] = ()
) -> Row:
    """One job in a folder of its own, and the same without a watch if `plain`."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        job = scripts.script(seed, free_port(), SERVER, sys.executable, fault, seconds)
        for file, text in job.files.items():
            (place / file).parent.mkdir(exist_ok=True)
            (place / file).write_text(text)
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
    parser.add_argument("what", choices=["healthy", "faults", "public"])
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
                calls.append(pool.submit(run, seed, "healthy", "", 20, plain=seed % 4 == 0))
            else:
                name = names[seed % len(names)]
                calls.append(
                    pool.submit(
                        run,
                        seed,
                        name,
                        FAULTS[name],
                        30,
                        plain=False,
                        extra=("--on-death", options.on_death),
                    )
                )
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


def _load() -> str:
    return f", load {os.getloadavg()[2]:.0f} in the last 15 minutes"


if __name__ == "__main__":
    main()

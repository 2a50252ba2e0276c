# SPDX-License-Identifier: Apache-2.0
"""Whether `run --watch` is silent about jobs that are well, and says at once what is not.

`python benchmarks/watching.py healthy|faults [--seeds A-B] [--jobs N]`: scripts made by seed
`python benchmarks/watching.py public|tools [--mirrors FOLDER]`: public scripts, and one job below several tools
`python benchmarks/watching.py short`: what it costs
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
from supervision.peers import NPM, install

from benchmarks.results import record, table
from benchmarks.watching import odd, public, scripts, short, tools

SERVER = f"{sys.executable} {Path(__file__).parents[1] / 'tests/support/programs/toy_server.py'}"
OURS = ("ci-doctor", "run", "--watch", "--no-setup-env", "--report-dir", "report")
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


def public_row(script: public.Public, name: str, mirrors: Path | None, limit_s: float) -> str:
    """One public script with one fault: without a watch, and with one that ends it."""
    fault = public.FAULTS[name]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        repository = public.fetch(script, folder, mirrors)
        programs = public.prepare(folder)
        clean = ["--clean"] if fault.kills else []
        words = shlex.join([*OURS, "--on-death", "end", *clean, "--stall", "30s", "--"])
        ours = public.run(script, fault, words, folder, programs, limit_s)
        names = public.names_of(script, fault)
        said, at, is_named = _said(folder / "report" / "report.json", names)
        # A step that hangs is cut off by the CI: until then its evidence has been said.
        if not (folder / "report" / "report.json").exists():
            is_named = all(each in ours.output for each in names)
            said = next(
                (line for line in ours.output.splitlines() if "nothing has been" in line), ""
            )
        plain = public.run(script, fault, "", folder, programs, limit_s)
    was_named = any(each in plain.output for each in fault.shows)
    cells = [
        f"{script.name} ({repository})", name, _ended(plain, limit_s), _yes(was_named, fault),
        _ended(ours, limit_s), _yes(is_named, fault) + (f", at {at:.0f} s" if at else ""), said,
    ]  # fmt: skip
    row = f"| {' | '.join(cells)} |"
    print(row, file=sys.stderr, flush=True)
    return row


def _ended(ran: public.Ran, limit_s: float) -> str:
    if ran.status is None:
        return f"at least {limit_s:.0f} s"
    left = f", {ran.left} left" if ran.left else ""
    return f"{ran.seconds:.0f} s ({ran.status}{left})"


def _yes(is_named: bool, fault: public.Fault) -> str:
    return ("yes" if is_named else "NO") if fault.names else "-"


def _said(path: Path, names: tuple[str, ...]) -> tuple[str, float | None, bool]:
    """What a report says first of a death or of a stall, when that was said, and whether it has all of `names`."""
    if not path.exists():
        return "", None, False
    report = json.loads(path.read_text())
    watch = report["facts"]["watch"]
    text = report["summary"] + json.dumps([report["findings"], watch], ensure_ascii=False)
    is_named = all(each in text for each in names)
    for death in watch["deaths"]:
        return death["failure"]["message"], death["said_s"], is_named
    for stall in watch["stalls"]:
        at = stall["start_s"] + stall["seconds"]
        return f"nothing was done for {stall['seconds']:.0f} s", at, is_named
    return report["summary"], None, is_named


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["healthy", "faults", "odd", "public", "short", "tools"])
    parser.add_argument("--seeds", default="0-199")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--on-death", default="say")
    parser.add_argument("--mirrors", type=Path)
    parser.add_argument("--only", default="", help="scripts or tools with this in their name")
    parser.add_argument("--fault", default="", help="the faults with this in their name")
    parser.add_argument(
        "--peers",
        type=Path,
        default=Path.home() / ".cache" / "ci-doctor-benchmark",
        help="where peers are installed",
    )
    parser.add_argument("--limit", type=float, default=700.0)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    if options.what == "public":
        compare_public(options)
    elif options.what == "tools":
        compare_tools(options)
    elif options.what == "short":
        run_short(options)
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
            for fault in public.faults_of(script)
            if options.fault in fault
        ]
        head = [
            "| script | fault | without | named | with `--on-death end` | named | said |",
            "|---|---|--:|---|--:|---|---|",
        ]
        limits = ", ".join(
            f"{each.name} {each.own_limit_s} s" for each in public.PUBLIC if each.own_limit_s
        )
        notes = [
            "",
            f"The scripts' own time-outs: {limits}. In brackets: the exit code, and the servers that were left; of a script that is killed with `--clean`.",
        ]
        lines = [*head, *(call.result() for call in calls), *notes]
    print(*lines, sep="\n")
    if options.record:
        record("public scripts below `run --watch`", lines, _load())


def compare_tools(options: argparse.Namespace) -> None:
    """A table of the same job below each tool, with each fault."""
    name = "start-server-and-test"
    peers = install(options.peers, pypi={}, npm={name: NPM[name]})
    jobs = tools.jobs(None if peers.missing else peers.node(name))
    jobs = {name: job for name, job in jobs.items() if options.only in name}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        calls = {
            fault: [pool.submit(_with_tool, job, fault, options.limit) for job in jobs.values()]
            for fault in public.FAULTS
            if options.fault in fault
        }
        lines = table(
            " | ".join(["fault", *jobs]),
            [(fault, *(call.result() for call in row)) for fault, row in calls.items()],
        )
    lines += ["", tools.NOTE]
    print(*lines, sep="\n")
    if options.record:
        record("one job below several tools", lines, _load())


def _with_tool(job: public.Public, name: str, limit_s: float) -> str:
    fault = public.FAULTS[name]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        ran = public.run(job, fault, "", folder, public.prepare(folder), limit_s)
        report = folder / "report" / "report.json"
        text = ran.output + (report.read_text() if report.exists() else "")
    is_named = any(each in text for each in fault.shows)
    cell = _ended(ran, limit_s) + (", named" if is_named else "")
    print(f"{name}: {job.name}: {cell}", file=sys.stderr, flush=True)
    return cell


def run_short(options: argparse.Namespace) -> None:
    """What a watch costs beside 500 processes that live, and 2,000 a second that do not."""
    lines = []
    for rate in (0, 2000):
        with tempfile.TemporaryDirectory() as place:
            words = [
                *OURS,
                "--no-setup-env",
                "--",
                sys.executable,
                "-S",
                short.__file__,
                str(rate),
                "30",
                "500",
            ]
            ran = subprocess.run(words, cwd=place, capture_output=True, text=True, check=True)
            watch = json.loads((Path(place) / "report" / "report.json").read_text())["facts"][
                "watch"
            ]
        reached, seconds = map(float, ran.stdout.split())
        lines.append(
            f"- 500 live, {reached:.0f} more a second for 30 s: the watch took {watch['cpu_s']:.2f} s of CPU in "
            f"{seconds:.0f} s, {watch['cpu_s'] / seconds:.2%} of one core; {watch['unseen']} were too short to be seen"
        )
    print(*lines, sep="\n")
    if options.record:
        record("`run --watch`, what it costs", lines, _load())


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
    return (
        len(row.deaths) == 1
        and f"(pid {row.server}) died" in row.deaths[0]
        and when in row.deaths[0]
    )


def _load() -> str:
    return f", load {os.getloadavg()[2]:.0f} in the last 15 minutes"


if __name__ == "__main__":
    main()

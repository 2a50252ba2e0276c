# SPDX-License-Identifier: Apache-2.0
"""Makes logs of runs that passed, by running real tools; a diagnosis must find no cause in them.

    python benchmarks/diagnose/passing_logs.py --out DIR               all jobs; needs registries
    python benchmarks/diagnose/passing_logs.py --out DIR --only click  those with this in their name
    python benchmarks/diagnose/passing_logs.py --out DIR --work DIR2   sets up in DIR2 instead of DIR.work
    python benchmarks/diagnose/passing_logs.py --list                  names and tools, and runs nothing

The jobs stand in `passing/tables/*.toml`. A log is kept only if all steps of its job ended with 0;
`DIR/manifest.jsonl` has a row for each. A job whose tool is missing is skipped, and stderr says so.
The logs hold other projects' text: keep DIR outside the repository. Sources and environments stay in
the work directory, and are used again. The exit status is 1 if a job that was run did not pass; the
text of such a run is in `not-passed` in the work directory, not among the logs.
"""

import argparse
import concurrent.futures
import shutil
import sys
from pathlib import Path

import msgspec
from passing.frames import Step, framed
from passing.jobs import Job, Place, read_places
from passing.manifest import Row, as_json_lines, tempting_lines
from passing.running import StepFailedError, environ_of, run_step

SETUP_S = 400
MANIFEST = "manifest.jsonl"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, help="directory for the logs")
    parser.add_argument("--work", type=Path, help="directory for sources and environments")
    parser.add_argument("--only", nargs="*", default=[""], help="parts of jobs' names")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the suites")
    parser.add_argument("--jobs", type=int, default=2, help="places at the same time")
    parser.add_argument("--list", action="store_true", help="print the jobs")
    options = parser.parse_args()
    if options.out is None and not options.list:
        parser.error("--out DIR is needed")
    return options


def chosen(places: tuple[Place, ...], parts: list[str]) -> list[Place]:
    """The places that hold a job with one of `parts` in its name, with these jobs alone."""
    result = []
    for place in places:
        jobs = tuple(job for job in place.jobs if any(part in job.name for part in parts))
        if jobs:
            result.append(msgspec.structs.replace(place, jobs=jobs))
    return result


def installed(place: Place) -> bool:
    """Whether the tools of a place are there; stderr says which ones are not."""
    missing = [each for each in place.needs if shutil.which(each) is None]
    if missing:
        print(f"{place.name}: skipped, not installed: {', '.join(missing)}", file=sys.stderr)
    return not missing


def run_place(place: Place, options: argparse.Namespace) -> list[Row]:
    """Set a place up if it is not yet, and run its jobs; the rows of those that passed."""
    root = options.work / place.name
    try:
        set_up(place, root, options)
    except StepFailedError as error:
        report_failure(place.name, error, options.work)
        return []
    rows = []
    for job in place.jobs:
        try:
            row = run_job(job, root, options)
        except StepFailedError as error:
            report_failure(job.name, error, options.work)
        else:
            rows.append(row)
            print(f"{row.name}: kept, {row.n_lines} lines", file=sys.stderr)
    return rows


def set_up(place: Place, root: Path, options: argparse.Namespace) -> None:
    ready = root / ".ready"
    if ready.exists() and ready.read_text(encoding="utf-8") == place.setup:
        return
    shutil.rmtree(root, ignore_errors=True)
    (root / "src").mkdir(parents=True)
    environ = environ_of(root, options.work / "cache", options.python)
    run_step(place.setup or "true", root, environ, timeout_s=SETUP_S)
    ready.write_text(place.setup, encoding="utf-8")


def run_job(job: Job, root: Path, options: argparse.Namespace) -> Row:
    environ = environ_of(root, options.work / "cache", options.python)
    steps: list[Step] = []
    for command in job.steps:
        step = run_step(command, root / "src", environ, timeout_s=job.timeout_s, pty=job.pty)
        steps.append(step)
    text = framed(job.frame, steps)
    path = options.out / f"{job.name}.log"
    write(path, text)
    n_tempting = tempting_lines(text)
    return Row(
        name=job.name,
        rel=path.name,
        place=root.name,
        tool=job.tool,
        command=job.steps,
        exit_code=0,
        n_lines=text.count("\n"),
        n_tempting=n_tempting,
        hard=n_tempting > 0,
        frame=job.frame,
        ours=job.ours,
        tolerates=job.tolerates,
    )


def write(path: Path, text: str) -> None:
    """The bytes as the tool wrote them, also where they are no UTF-8."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))


def report_failure(name: str, error: StepFailedError, work: Path) -> None:
    path = work / "not-passed" / f"{name}.log"
    write(path, "".join(f"{line.text}\n" for line in error.lines))
    print(f"{name}: NOT kept, {error}; see {path}", file=sys.stderr)


def kept_before(out: Path, again: set[str]) -> dict[str, Row]:
    """The rows of an earlier run, by name; the logs of jobs that run again are removed."""
    for name in again:
        (out / f"{name}.log").unlink(missing_ok=True)
    path = out / MANIFEST
    if not path.exists():
        return {}
    rows = [msgspec.json.decode(line, type=Row) for line in path.read_bytes().splitlines()]
    return {row.name: row for row in rows if row.name not in again}


def run_all(places: list[Place], options: argparse.Namespace) -> int:
    """Run the jobs of `places`; the number of those that did not pass."""
    names = {job.name for place in places for job in place.jobs}
    rows = kept_before(options.out, names)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for made in pool.map(lambda place: run_place(place, options), places):
            rows.update({row.name: row for row in made})
            write(options.out / MANIFEST, as_json_lines(list(rows.values())))
    n_kept = len(names & rows.keys())
    n_hard = sum(1 for row in rows.values() if row.hard)
    print(f"{n_kept} of {len(names)} jobs kept; {len(rows)} logs, {n_hard} of them hard")
    return len(names) - n_kept


def main() -> int:
    options = arguments()
    places = chosen(read_places(), options.only)
    if options.list:
        for place in places:
            for job in place.jobs:
                print(f"{job.name:40} {job.tool}")
        return 0
    options.out = options.out.resolve()
    options.work = (options.work or options.out.with_name(f"{options.out.name}.work")).resolve()
    (options.work / "cache").mkdir(parents=True, exist_ok=True)
    n_failed = run_all([place for place in places if installed(place)], options)
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())

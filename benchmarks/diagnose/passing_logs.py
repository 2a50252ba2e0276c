# SPDX-License-Identifier: Apache-2.0
"""Makes logs of runs that passed, by running real tools; a diagnosis must find no cause in them.

    python benchmarks/diagnose/passing_logs.py --out DIR               all jobs; needs registries
    python benchmarks/diagnose/passing_logs.py --out DIR --only click  those with this in their name
    python benchmarks/diagnose/passing_logs.py --out DIR --work DIR2   what is set up there is used again
    python benchmarks/diagnose/passing_logs.py --list                  names and tools, and runs nothing

The jobs stand in `passing/tables/*.toml`. A log is kept only if all steps of its job ended with 0;
`DIR/manifest.jsonl` has a row for each. A job whose tool is missing is skipped, and stderr says so.
The logs hold other projects' text: keep DIR outside the repository. The exit status is 1 if a job
that was run did not pass; the text of such a run is in the work directory, not among the logs.
"""

import argparse
import concurrent.futures
import shutil
import sys
import tempfile
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
    parser.add_argument("--only", default="", help="part of a job's name")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the suites")
    parser.add_argument("--jobs", type=int, default=2, help="places at the same time")
    parser.add_argument("--list", action="store_true", help="print the jobs")
    return parser.parse_args()


def chosen(places: tuple[Place, ...], only: str) -> list[Place]:
    """The places that hold a job with `only` in its name, with these jobs alone."""
    result = []
    for place in places:
        jobs = tuple(job for job in place.jobs if only in job.name)
        if jobs:
            result.append(msgspec.structs.replace(place, jobs=jobs))
    return result


def run_place(place: Place, options: argparse.Namespace) -> list[Row]:
    """Set a place up if it is not yet, and run its jobs; the rows of those that passed."""
    missing = [each for each in place.needs if shutil.which(each) is None]
    if missing:
        print(f"{place.name}: skipped, not installed: {', '.join(missing)}", file=sys.stderr)
        return []
    root = options.work / place.name
    try:
        set_up(place, root, options)
    except StepFailedError as error:
        report_failure(place.name, error, options.work)
        return []
    rows = []
    for job in place.jobs:
        try:
            rows.append(run_job(job, root, options))
        except StepFailedError as error:
            report_failure(job.name, error, options.work)
        else:
            print(f"{job.name}: kept, {rows[-1].n_lines} lines", file=sys.stderr)
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


def kept_before(out: Path) -> dict[str, Row]:
    """The rows of an earlier run, by name; a run of some jobs leaves the others' logs there."""
    path = out / MANIFEST
    if not path.exists():
        return {}
    rows = [msgspec.json.decode(line, type=Row) for line in path.read_bytes().splitlines()]
    return {row.name: row for row in rows}


def main() -> int:
    options = arguments()
    places = chosen(read_places(), options.only)
    if options.list:
        for place in places:
            for job in place.jobs:
                print(f"{job.name:40} {job.tool}")
        return 0
    if options.out is None:
        print("--out DIR is needed", file=sys.stderr)
        return 2
    options.out = options.out.resolve()
    options.work = (options.work or Path(tempfile.mkdtemp(prefix="passing-"))).resolve()
    (options.work / "cache").mkdir(parents=True, exist_ok=True)
    rows = kept_before(options.out)
    for place in places:
        for job in place.jobs:
            rows.pop(job.name, None)
            (options.out / f"{job.name}.log").unlink(missing_ok=True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for made in pool.map(lambda place: run_place(place, options), places):
            rows.update({row.name: row for row in made})
            write(options.out / MANIFEST, as_json_lines(list(rows.values())))
    n_chosen = sum(len(place.jobs) for place in places)
    n_kept = sum(1 for place in places for job in place.jobs if job.name in rows)
    n_hard = sum(1 for row in rows.values() if row.hard)
    print(f"{n_kept} of {n_chosen} jobs kept; {len(rows)} logs, {n_hard} of them hard")
    return 0 if n_kept == n_chosen else 1


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Which kinds and culprits `--explain-flaky` names, over the labelled programs of tests/support/flaky_corpus.

    python benchmarks/flaky_kinds.py               prints a row for each program, and the shares
    python benchmarks/flaky_kinds.py --only port   those whose kind or name holds this word
    python benchmarks/flaky_kinds.py --only state --before 1000   a long order before the flaky test
    python benchmarks/flaky_kinds.py --record      also appends the shares to benchmarks/RESULTS.md

Each program is a real suite in a directory of its own, run by real processes. The label gives what a recorder would know:
the order, and the exception of the failure. A service listens for the programs that need one. The machine's load counts:
the programs of the kinds `load` and `clock` race for real.
"""

import http.server
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from results import options, record

from ci_doctor.pytest_runs.explaining import TrialRunner, explained
from ci_doctor.pytest_runs.explanation import Explanation
from ci_doctor.pytest_runs.trial import Suspect
from ci_doctor.system.processes.limited_runs import run_limited
from ci_doctor.system.processes.tree import OwnTree, become_subreaper
from tests.support.flaky_corpus.labels import LABELS, Labelled, place

BUDGET_S = 120.0
TRIAL_S = 60.0
TARGET = 0.9


class Quiet(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_words: object) -> None:
        pass


@contextmanager
def service() -> Iterator[int]:
    """A service outside the trials, and its port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def explained_program(
    label: Labelled, folder: Path, served: int, budget_s: float, before: int
) -> Explanation:
    """Set up the program and explain its flaky test."""
    placed = place(label, folder / "project", served=served, fillers=before)

    def execute(command: Sequence[str], environ: Mapping[str, str]) -> int | None:
        tree = OwnTree()
        run = run_limited(command, timeout_s=TRIAL_S, cwd=placed.directory, environ=environ)
        tree.kill(2.0)
        return run.exit_code

    scratch = folder / "scratch"
    scratch.mkdir()
    runner = TrialRunner(
        python=sys.executable,
        arguments=("-q", "-p", "no:randomly"),
        environ={**os.environ, "TZ": "UTC", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        scratch=scratch,
        execute=execute,
    )
    suspect = Suspect(test=placed.test, before=placed.before, error=label.error)
    return explained(suspect, runner.run, budget_s)


def is_right(label: Labelled, found: Explanation) -> tuple[bool, bool]:
    """Whether the kind and the culprit are those of the label."""
    kind = str(found.kind or "none")
    return kind == label.kind, kind == label.kind and label.culprit in (found.culprit or "")


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--only", default="", help="programs whose kind or name holds this word")
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="seconds for a program")
    parser.add_argument(
        "--before", type=int, default=12, help="harmless tests before the program's"
    )
    arguments = parser.parse_args()
    become_subreaper()
    kinds = culprits = trials = count = 0
    seconds = 0.0
    for label in LABELS:
        if arguments.only not in f"{label.kind}/{label.name}":
            continue
        with service() as served, tempfile.TemporaryDirectory(prefix="flaky-") as folder:
            found = explained_program(
                label, Path(folder), served, arguments.budget, arguments.before
            )
        kind, culprit = is_right(label, found)
        count += 1
        kinds += kind
        culprits += culprit
        trials += found.runs
        seconds += found.duration_s
        sys.stdout.write(
            f"{'OK  ' if culprit else 'MISS'} {label.kind}/{label.name}: {found.kind} "
            f"{found.culprit} {list(found.left)} {found.reason or ''}"
            f" plain {found.plain_failures}/{found.plain_runs},"
            f" {found.runs} trials, {found.duration_s:.1f} s\n"
        )
        sys.stdout.flush()
    line = (
        f"{count} programs: kind right {kinds / count:.0%}, culprit right {culprits / count:.0%}; "
        f"{trials / count:.1f} trials and {seconds / count:.1f} s a program"
    )
    sys.stdout.write(line + "\n")
    if arguments.record:
        record("kinds of flaky tests", [line])
    return int(min(kinds, culprits) < TARGET * count)


if __name__ == "__main__":
    raise SystemExit(main())

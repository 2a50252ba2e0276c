# SPDX-License-Identifier: Apache-2.0
"""How fast services are known to be ready or dead, what is left of them, and what the watching costs; peers beside it.

    python benchmarks/services.py                    prints each row, and PASS or MISS against its target
    python benchmarks/services.py --only exit        one row: died, exit, descendant, orphans, watching, ready
    python benchmarks/services.py --record           also appends the rows to benchmarks/RESULTS.md

Contenders take turns in one run, each median is over `--runs`; only ratios travel to another machine. The peers are
installed, at pinned versions, in a folder outside the repository. The exit status is 1 where a target is missed.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from results import load, machine, options, record
from supervision import deaths, exits, orphans, readiness, watching
from supervision.figures import Row, as_markdown, as_text
from supervision.peers import Peers, install
from supervision.scene import Scene

PEERS = Path.home() / ".cache" / "ci-doctor-benchmark"


def rows(
    scene: Scene, arguments: argparse.Namespace, peers: Callable[[], Peers]
) -> dict[str, Callable[[], Row]]:
    runs = arguments.runs
    return {
        "died": lambda: deaths.event_row(scene, runs),
        "exit": lambda: exits.row(scene, runs, peers()),
        "descendant": lambda: deaths.descendant_row(scene, runs),
        "orphans": lambda: orphans.row(scene, runs, peers()),
        "watching": lambda: watching.row(scene, arguments.watch_seconds),
        "ready": lambda: readiness.row(scene, runs, peers()),
    }


def parse() -> argparse.Namespace:
    parser = options(__doc__)
    parser.add_argument("--runs", type=int, default=20, help="counted runs of each contender")
    parser.add_argument(
        "--watch-seconds", type=float, default=60.0, help="how long the eight services are watched"
    )
    parser.add_argument("--only", action="append", metavar="NAME", help="one row, may be repeated")
    parser.add_argument("--peers", type=Path, default=PEERS, help="where peers are installed")
    return parser.parse_args()


def main() -> int:
    arguments, before, done = parse(), load(), []
    print(f"{machine()}{before}", flush=True)
    with tempfile.TemporaryDirectory(prefix="ci-doctor-benchmark-") as folder:
        named = rows(Scene(Path(folder)), arguments, lambda: install(arguments.peers))
        if unknown := set(arguments.only or ()) - set(named):
            raise SystemExit(
                f"no row is named {', '.join(sorted(unknown))}; there are: {', '.join(named)}"
            )
        for name in arguments.only or named:
            done.append(named[name]())
            print(as_text(done[-1]), flush=True)
    if arguments.record:
        title = f"services, {arguments.runs} alternating runs, medians"
        record(title, map(as_markdown, done), before)
    return 0 if all(row.within for row in done) else 1


if __name__ == "__main__":
    sys.exit(main())

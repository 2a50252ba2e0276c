# SPDX-License-Identifier: Apache-2.0
"""Eight ranks restore from one store at once: a store that answers, one that hangs, a leader that is killed.

    python benchmarks/caches/ranks.py            prints transfers and seconds
    python benchmarks/caches/ranks.py --record   also appends them to benchmarks/RESULTS.md

Each rank is a `ci-doctor cache restore` of its own. The store that hangs is a socket that accepts and never answers.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

RANKS = 8
BUDGET_S = 4
RESULTS = Path(__file__).parents[1] / "RESULTS.md"
CI_DOCTOR = (sys.executable, "-m", "ci_doctor", "cache")


class Machine:
    """A state directory, a cache and a store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        (folder / "state").mkdir(mode=0o700)
        self.environment = {
            **os.environ,
            "CI_DOCTOR_STATE_DIR": str(folder / "state"),
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    def words(self, command: str, store: str) -> list[str]:
        family = f"mine={self.cache}"
        options = ["--store", store, "--family", family, "--python", sys.executable]
        return [*CI_DOCTOR, command, *options, "--budget", f"{BUDGET_S}s", "--json"]

    def ranks(self, store: str) -> list[subprocess.Popen[str]]:
        return [
            subprocess.Popen(
                self.words("restore", store),
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            for _ in range(RANKS)
        ]

    def lock_holder(self) -> int:
        """The process that holds the leader's lock (proc_locks(5))."""
        inodes = {path.stat().st_ino for path in (self.folder / "state" / "leaders").glob("*.lock")}
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            if "->" not in fields and int(fields[5].rpartition(":")[2]) in inodes:
                return int(fields[4])
        raise SystemExit("no rank holds the lock")


@contextmanager
def machine() -> Iterator[Machine]:
    with tempfile.TemporaryDirectory() as folder:
        yield Machine(Path(folder))


def transfers(processes: Sequence[subprocess.Popen[str]]) -> int:
    """How many of the ranks that came to their end made a transfer of their own."""
    own = 0
    for process in processes:
        text = process.communicate()[0]
        if text:
            own += not json.loads(text)["facts"]["is_shared"]
    return own


def ok() -> str:
    with machine() as place:
        place.cache.mkdir()
        for number in range(200):
            (place.cache / f"{number}.so").write_bytes(os.urandom(50_000))
        store = str(place.folder / "store")
        subprocess.run(
            place.words("save", store), env=place.environment, check=True, capture_output=True
        )
        shutil.rmtree(place.cache)
        began = time.monotonic()
        count = transfers(place.ranks(store))
        return f"| the store answers (10 MB in 200 files) | {count} | {time.monotonic() - began:.1f} s until all ranks ended |"


def failing() -> str:
    with machine() as place, socket.create_server(("127.0.0.1", 0)) as server:
        place.environment["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{server.getsockname()[1]}"
        began = time.monotonic()
        count = transfers(place.ranks("s3://bucket"))
        took = time.monotonic() - began
        return f"| the store hangs, budget {BUDGET_S} s | {count} | {took:.1f} s until all ranks ended; one after the other it would be {RANKS * BUDGET_S} s |"


def killed() -> str:
    with machine() as place, socket.create_server(("127.0.0.1", 0)) as server:
        place.environment["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{server.getsockname()[1]}"
        processes = place.ranks("s3://bucket")
        first, _ = server.accept()
        leader = place.lock_holder()
        began = time.monotonic()
        os.kill(leader, signal.SIGKILL)
        second, _ = server.accept()
        took = time.monotonic() - began
        count = transfers(processes)
        first.close()
        second.close()
    return f"| the leader is killed with SIGKILL | {count} | {took:.3f} s until another rank asks the store |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="append the result to RESULTS.md")
    arguments = parser.parse_args()
    rows = ["| case | transfers | time |", "|---|--:|---|", ok(), failing(), killed()]
    text = "\n".join(rows)
    print(text)
    if arguments.record:
        now = datetime.now(UTC).strftime("%Y-%m-%d")
        where = f"{os.cpu_count()} CPUs, Python {platform.python_version()}"
        with RESULTS.open("a") as file:
            file.write(
                f"\n## Caches: eight ranks, {now}\n\n{where}, ci-doctor from this commit.\n\n{text}\n"
            )


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor correctness --devices`: two starts at once, each on the device that was drawn for it. Real servers answer by
the device that they are given; nobody needs a GPU for that."""

import contextlib
import json
import os
import re
import select
import shutil
import signal
from typing import TYPE_CHECKING

import pytest

from tests.integration.test_correctness import (
    LIMIT_S,
    LOOKING,
    Bench,
    bench,
    bench_apart,
    check,
)
from tests.support.orders import SEED

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

pytestmark = pytest.mark.integration
__all__ = ["bench", "bench_apart"]

BOTH = ("--devices", "0,1", "--seed", str(SEED))


def devices(bench: Bench) -> dict[str, str]:
    """The devices of each start, by the report."""
    return {each["start"]: each["devices"] for each in bench.report["facts"]["devices"]}


def told(bench: Bench) -> dict[str, tuple[str, str]]:
    """Devices and TMPDIR of each start, by its own log."""
    found = {}
    for log in bench.reports.glob("logs/*/*.log"):
        (line,) = re.findall(r"devices: (\S+) tmp: (\S+)", log.read_text())
        found[log.parent.name] = line
    return found


def test_a_pair_runs_at_the_same_time_each_on_its_own_device(bench: Bench) -> None:
    traits = "tells-devices meets-another"
    ran = bench.compare(traits, traits, *BOTH, "--start-timeout", "60")
    check(bench, ran, "pass", 0)
    said = told(bench)
    assert {name: each[0] for name, each in said.items()} == devices(bench)
    assert sorted(devices(bench).values()) == ["0", "1"]
    assert len({each[1] for each in said.values()}) == 2
    assert {each["title"] for each in bench.report["tables"]} >= {"Devices", "Order"}
    assert not bench.rules()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two sets of cores")
def test_without_a_gpu_starts_at_once_have_cores_of_their_own(bench: Bench) -> None:
    traits = "tells-cores meets-another"
    env: dict[str, str | None] = {"CUDA_VISIBLE_DEVICES": None}
    ran = bench.compare(traits, traits, "--fan-out", "local:2", "--start-timeout", "60", env=env)
    check(bench, ran, "pass", 0)
    logs = {log.parent.name: log.read_text() for log in bench.reports.glob("logs/*/*.log")}
    cores = {
        name: ",".join(re.findall(r"cores: (.+)", text)[0].split()) for name, text in logs.items()
    }
    assert {name: f"cores:{each}" for name, each in cores.items()} == devices(bench)
    assert len(set(cores.values())) == 2


def test_the_devices_of_the_job_are_not_left(bench: Bench) -> None:
    env: dict[str, str | None] = {"CUDA_VISIBLE_DEVICES": "6,GPU-5c89852c"}
    ran = bench.compare("tells-devices", "tells-devices", "--devices", "auto", env=env)
    check(bench, ran, "pass", 0)
    assert sorted(each[0] for each in told(bench).values()) == ["6", "GPU-5c89852c"]
    ran = bench.compare("", "", "--devices", "0,1", env=env)
    assert ran.code == 2
    assert "0 is none of the job's own" in ran.err + ran.out


@pytest.mark.nightly
def test_a_fault_is_red_after_as_many_starts_as_ever(bench: Bench) -> None:
    check(bench, bench.compare("", "flip", *BOTH, "--no-localise"), "regression", 1)
    facts = bench.report["facts"]
    assert facts["starts"] == {"baseline": 4, "candidate": 5}
    made = [attempt["name"].split()[0] for attempt in bench.report["attempts"]]
    assert facts["schedule"]["made"].split() == made
    order = facts["schedule"]["order"].split()
    assert [name[0] for name in made] == order[:9]
    assert set(devices(bench).values()) == {"0", "1"}


@pytest.mark.nightly
def test_answers_that_follow_the_device_do_not_blame_the_change(bench: Bench) -> None:
    check(bench, bench.compare("flip%1", "flip%1", *BOTH, "--no-localise"), "flaky", 0)
    assert "correctness/device" in bench.rules()
    by_device: dict[str, set[str]] = {}
    names = devices(bench)
    for sample in bench.samples:
        if sample["id"] == "r1":
            start = f"{'A' if sample['arm'] == 'baseline' else 'B'}{sample['start']}"
            by_device.setdefault(names[start], set()).add(sample["digest"])
    assert [len(digests) for digests in by_device.values()] == [1, 1]
    assert by_device["0"] != by_device["1"]


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [1, 2])
def test_a_device_on_which_nothing_works_is_never_the_changes_fault(
    bench: Bench, seed: int
) -> None:
    words = ("--devices", "0,1", "--seed", str(seed), "--no-localise")
    ran = bench.compare("dies%1", "dies%1", *words)
    assert bench.report["verdict"] in {"flaky", "inconclusive"}, ran
    # The start beside one that died has answered everything.
    outcomes = {each["name"].split()[0]: each["outcome"] for each in bench.report["attempts"]}
    for name, device in devices(bench).items():
        assert ("answered 4/4" in outcomes[name]) is (device == "0")


def test_what_one_start_keeps_where_the_other_finds_it_is_no_pass(bench_apart: Bench) -> None:
    bench = bench_apart
    ran = bench.compare("keeps", "keeps", *BOTH, env=LOOKING)
    check(bench, ran, "void", 86)
    (read,) = {
        each["start"]: each["read"] for each in bench.report["facts"]["shared"] if each["read"]
    }.items()
    name, files = read
    # The second of the pair, after the first one's turn.
    made = bench.report["facts"]["schedule"]["made"].split()
    assert made[1] == name
    assert {each["writer"] for each in files} == {made[0]}
    assert all(str(bench.directory) in each["path"] for each in files)


@contextlib.contextmanager
def begun_and_waiting(bench: Bench) -> "Iterator[subprocess.Popen[bytes]]":
    """A run both of whose servers have been started, and wait for a file."""
    with bench.begin("stuck", "stuck", *BOTH) as process:
        while len(bench.living()) < 2:
            assert process.poll() is None
            select.select([], [], [], 0.02)
        yield process


@pytest.mark.nightly
def test_a_signal_ends_both_and_the_run_goes_on_later(bench: Bench) -> None:
    with begun_and_waiting(bench) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 143
    assert bench.living() == []
    assert bench.report["error"]["kind"] == "sigterm"
    (bench.directory / "go").touch()
    ran = bench.compare("stuck", "stuck", *BOTH, "--resume", str(bench.reports))
    check(bench, ran, "pass", 0)


@pytest.mark.nightly
def test_nothing_is_left_of_either_after_a_kill(bench: Bench) -> None:
    with begun_and_waiting(bench) as process:
        process.kill()
    while bench.living():
        select.select([], [], [], 0.02)


@pytest.mark.nightly
def test_a_start_that_is_recorded_is_not_made_again_and_keeps_its_device(bench: Bench) -> None:
    more = ("--no-localise", "--max-starts", "9")
    check(bench, bench.compare("flip%1", "flip%1", *BOTH, *more), "flaky", 0)
    before = devices(bench)
    # As if it had been killed within its last pair.
    kept = (bench.reports / "starts.jsonl").read_text().splitlines(keepends=True)[:3]
    (bench.reports / "starts.jsonl").write_text("".join(kept))
    resume = ("--resume", str(bench.reports))
    check(bench, bench.compare("flip%1", "flip%1", *BOTH, *more, *resume), "flaky", 0)
    assert devices(bench) == before
    others = ("--devices", "0,2", "--seed", str(SEED))
    other = bench.compare("flip%1", "flip%1", *others, *resume)
    assert other.code == 2
    assert "devices 0 1 -> 0 2" in other.out + other.err


@pytest.mark.nightly
def test_an_archived_start_names_its_device(bench: Bench) -> None:
    archive = ("--archive", str(bench.directory / "archive"))
    config = '[correctness]\narchive_write = "always"\n'
    (bench.directory / "ci-doctor.toml").write_text(config)
    check(bench, bench.compare("", "", *BOTH, *archive), "pass", 0)
    first = devices(bench)["A1"]
    shutil.rmtree(bench.reports)
    check(bench, bench.compare("", "", *BOTH, *archive), "pass", 0)
    assert devices(bench)["a1"] == first


def test_a_dry_run_names_the_devices_and_starts_nothing(bench: Bench) -> None:
    ran = bench.compare("", "", *BOTH, "--dry-run")
    assert ran.code == 0
    assert "devices: 2 starts at once, on 0 and 1" in ran.out
    assert not (bench.reports / "report.json").exists()


# The driver's library on a machine with two GPUs: each server there has a GiB of the device that it was given.
LIBRARY = """
import os
from pathlib import Path
class NVMLError(Exception): pass
class NVMLError_NotSupported(NVMLError): pass
class Memory: pass
def nvmlInit(): pass
def nvmlShutdown(): pass
def nvmlDeviceGetCount(): return 2
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetComputeRunningProcesses(index): return []
def nvmlDeviceGetMemoryInfo(index):
    memory = Memory()
    memory.used = sum(map(lambda place: holds(place, index), Path("/proc").glob("[0-9]*"))) << 30
    return memory
def holds(place, index):
    try:
        variables = (place / "environ").read_bytes().split(b"\\0")
        return b"serve_model" in (place / "cmdline").read_bytes() and {OURS, b"CUDA_VISIBLE_DEVICES=%d" % index} <= set(variables)
    except OSError:
        return False
"""


@pytest.mark.nightly
def test_the_memory_of_the_other_start_is_no_remains(bench: Bench) -> None:
    library = bench.directory / "library"
    library.mkdir()
    mark = f"PYTHONPATH={library}"
    (library / "pynvml.py").write_text(f"OURS = {mark.encode()!r}\n{LIBRARY}")
    ran = bench.compare("", "", *BOTH, env={"PYTHONPATH": str(library)})
    check(bench, ran, "pass", 0)
    for line in (bench.reports / "starts.jsonl").read_text().splitlines():
        assert json.loads(line)["result"]["stopped"]["not_released"] == []

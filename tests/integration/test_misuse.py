# SPDX-License-Identifier: Apache-2.0
"""Commands that cannot run as they are written: an error of usage of every command that starts services, and no verdict."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_correctness import SERVER, Bench, bench
from tests.support.cli import Ran, inside

pytestmark = pytest.mark.integration
__all__ = ["bench"]
PYTHON = shlex.quote(sys.executable)
PARSES = """
import argparse, os, runpy, sys
parser = argparse.ArgumentParser()
parser.add_argument("port")
parser.add_argument("directory")
OPTIONS
given = parser.parse_args()
sys.path.insert(0, os.path.dirname(SERVER))
sys.argv = ["serve_model.py", given.port, "start=1", given.directory]
runpy.run_path(SERVER, run_name="__main__")
"""


def compare(bench: Bench, baseline: str, candidate: str, *more: str) -> Ran:
    arguments = ("--baseline", baseline, "--candidate", candidate, "--requests", "requests.jsonl")
    return inside(
        "correctness", *arguments, "--passes", "1", "--report-dir", bench.reports, *more,
        cwd=bench.directory,
    )  # fmt: skip


def starts(bench: Bench) -> str:
    return "".join(attempt["name"][0] for attempt in bench.report["attempts"])


def parsing(bench: Bench, name: str, *options: str) -> str:
    """The command of a server that knows these options."""
    lines = "\n".join(f"parser.add_argument({option!r}, action='store_true')" for option in options)
    text = PARSES.replace("OPTIONS", lines).replace("SERVER", repr(str(SERVER)))
    (bench.directory / name).write_text(text)
    return f"{PYTHON} {name} {{port}} {shlex.quote(str(bench.directory))}"


def refused(bench: Bench, ran: Ran, said: str) -> dict[str, Any]:
    report = bench.report
    assert (report["verdict"], ran.code) == (None, 2), ran
    assert report["error"]["kind"] == "usage"
    assert said in report["error"]["message"]
    assert "healthy machine" not in ran.out + ran.err
    return report


@pytest.mark.parametrize("arm", ["baseline", "candidate"])
@pytest.mark.gate(1)
def test_a_misspelt_script_of_either_arm_is_found_before_anything_is_started(
    bench: Bench, arm: str
) -> None:
    (bench.directory / "server.py").touch()
    commands = {"baseline": bench.server(), "candidate": bench.server()}
    commands[arm] = f"{PYTHON} servr.py {{port}}"
    report = refused(bench, compare(bench, **commands), "servr.py")
    assert report["attempts"] == []
    assert "/server.py`?" in report["error"]["hint"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (f"{PYTHON} -m nosuch {{port}}", "No module named nosuch"),
        (f"env {PYTHON} servr.py {{port}}", "can't open file"),
        ("bash -c 'nosuch-server {port}'", "nosuch-server: command not found"),
        (f"{PYTHON} -m http.server --typo {{port}}", "unrecognized arguments: --typo"),
    ],
)
@pytest.mark.gate(1)
def test_a_baseline_that_cannot_run_ends_the_run_with_its_first_start(
    bench: Bench, command: str, said: str
) -> None:
    report = refused(bench, compare(bench, command, bench.server()), said)
    assert starts(bench) == "A"
    (finding,) = report["findings"]
    assert finding["rule"] == "correctness/service-died"
    assert said in finding["evidence"][0]["excerpt"]


def test_a_baseline_that_ends_suddenly_without_a_word_is_started_twice(bench: Bench) -> None:
    refused(bench, compare(bench, "bash -c 'exit 2 # {port}'", bench.server()), "exit code 2")
    assert starts(bench) == "ABA", "no start is pulled forward"


def test_an_option_that_only_the_candidate_has_is_an_error_of_usage(bench: Bench) -> None:
    command = parsing(bench, "server.py")
    ran = compare(bench, command, f"{command} --typo")
    refused(bench, ran, "unrecognized arguments: --typo")
    assert starts(bench) == "AB"
    # Neither another start nor an answer of this run would help.
    assert not any(word in ran.out for word in ("--resume", "replay", "--only"))


@pytest.mark.nightly
def test_an_option_that_the_change_has_removed_is_a_regression(bench: Bench) -> None:
    """Both arms have the option on their command lines, and the baseline's server knows it."""
    before = parsing(bench, "before.py", "--eager")
    after = parsing(bench, "after.py")
    ran = compare(bench, f"{before} --eager", f"{after} --eager")
    assert (bench.report["verdict"], ran.code) == ("regression", 1), ran


@pytest.mark.nightly
def test_a_script_that_the_change_has_removed_is_a_regression(bench: Bench) -> None:
    """Each arm has a checkout of its own, and the same command."""
    command = parsing(bench, "server.py")
    folders = {arm: bench.directory / arm for arm in ("baseline", "candidate")}
    for folder in folders.values():
        folder.mkdir()
    (bench.directory / "server.py").rename(folders["baseline"] / "server.py")
    lines = ["[correctness]", 'requests = "requests.jsonl"']
    for arm, folder in folders.items():
        lines = [f"[services.{arm}-server]", f"command = {json.dumps(command)}",
                 f"cwd = {json.dumps(str(folder))}", *lines, f"[correctness.{arm}]",
                 f'services = ["{arm}-server"]']  # fmt: skip
    (bench.directory / "ci-doctor.toml").write_text("\n".join(lines))
    ran = inside(
        "correctness", "--passes", "1", "--report-dir", bench.reports,
        cwd=bench.directory,
    )  # fmt: skip
    assert (bench.report["verdict"], ran.code) == ("regression", 1), ran
    assert "can't open file" in json.dumps(bench.report["findings"])


@pytest.mark.nightly
def test_a_candidate_that_ends_suddenly_without_a_word_is_a_regression(bench: Bench) -> None:
    ran = compare(bench, bench.server(), "bash -c 'exit 2 # {port}'", "--retries", "1")
    assert (bench.report["verdict"], ran.code) == ("regression", 1), ran
    assert sorted(starts(bench)) == sorted("AAAABBBBB"), "the starts of the first look"


# --- launch and restart-check ---


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (f"{PYTHON} servr.py {{port}}", "servr.py"),
        (f"{PYTHON} -m nosuch {{port}}", "No module named nosuch"),
        (f"{PYTHON} -m http.server --typo {{port}}", "unrecognized arguments: --typo"),
    ],
)
@pytest.mark.parametrize("kind", ["launch", "restart-check"])
@pytest.mark.gate(2)
def test_a_service_that_cannot_run_is_an_error_of_usage(
    tmp_path: Path, kind: str, command: str, said: str
) -> None:
    (tmp_path / "requests.jsonl").write_text('{"id": "r0", "body": {"prompt": "p"}}\n')
    (tmp_path / "ci-doctor.toml").write_text(f"""
        [services.web]
        command = {json.dumps(command)}
        [restart-check]
        kill = "web"
        requests = "requests.jsonl"
    """)
    more = ["--", "true"] if kind == "launch" else []
    out = tmp_path / "out"
    ran = inside(kind, "--report-dir", out, *more, cwd=tmp_path)
    report = json.loads((out / "report.json").read_text())
    assert (report["verdict"], ran.code, report["error"]["kind"]) == (None, 2, "usage"), ran
    assert said in report["error"]["message"]

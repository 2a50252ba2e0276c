# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor diagnose` as it is typed: what is printed, where, and with which exit code."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.support.cli import ROOT, begin, inside

pytestmark = pytest.mark.integration
EXAMPLE = ROOT / "examples" / "diagnose"
RULES = """
[[rule]]
id = "team/licence-server"
role = "cause"
class = "network"
is_outside = true
literals = ["licence server"]
regex = 'licence server (?P<name>\\S+) does not answer'
explanation = "The licence server of the team does not answer."
remedy = "Ask the infrastructure team."
match = ["licence server lic-7 does not answer"]
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A repository with a rule of its own, and a log that it recognises."""
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "rules.toml").write_text(RULES)
    (tmp_path / "ci-doctor.toml").write_text('[diagnose]\nrules = ["ci/rules.toml"]\n')
    (tmp_path / "job.log").write_text("start\nlicence server lic-7 does not answer\n")
    return tmp_path


def test_the_example_names_the_traceback_and_not_the_time_out(tmp_path: Path) -> None:
    ran = inside("diagnose", "client.log", "server.log", "--report-dir", tmp_path, cwd=EXAMPLE)

    report = json.loads((tmp_path / "report.json").read_text())
    root = report["findings"][0]["evidence"][0]
    assert (root["file"], root["line"], root["end_line"]) == ("server.log", 10, 10)
    assert (ran.code, report["verdict"], ran.err) == (0, None, "")
    assert ran.out.startswith("server.log:10  ")
    assert "  > 10 │ TypeError: split_heads() got an unexpected keyword" in ran.out
    assert {each.name for each in tmp_path.iterdir()} >= {"junit.xml", "report.md"}
    # The page has no --report-dir, and so no line that names one.
    assert_shown(ran.out.rpartition("\nreport: ")[0], EXAMPLE / "README.md")


def assert_shown(out: str, page: Path) -> None:
    """The page shows what the command prints; UPDATE_GOLDEN=1 writes it anew."""
    text = page.read_text(encoding="utf-8")
    before, command, rest = text.partition("$ ci-doctor diagnose client.log server.log\n")
    shown, fence, after = rest.partition("```\n")
    if os.environ.get("UPDATE_GOLDEN"):
        page.write_text(f"{before}{command}{out}{fence}{after}", encoding="utf-8")
        shown = out

    assert shown == out


def test_a_cause_outside_the_change_asks_for_a_retry_only_on_request(job: Path) -> None:
    plain = inside("diagnose", "job.log", cwd=job)
    by_class = inside("diagnose", "job.log", "--exit-code-by-class", "--json", cwd=job)

    assert (plain.code, by_class.code) == (0, 75)
    report = json.loads(by_class.out)
    assert (report["verdict"], report["exit_code"]) == (None, 75)
    assert report["facts"]["root_cause"]["rule"] == "team/licence-server"


def test_nothing_readable_is_void(tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()

    ran = inside(
        "diagnose", "empty.log", "gone.log", "--exit-code-by-class", "--json", cwd=tmp_path
    )

    assert (ran.code, json.loads(ran.out)["verdict"]) == (86, "void")


def test_a_growing_log_names_its_cause_as_it_appears(job: Path) -> None:
    log = job / "later.log"

    with begin("diagnose", "--follow", "--json", "later.log", cwd=job) as process:
        log.write_text("start\nlicence server lic-7 does not answer\n")
        assert process.stdout is not None
        line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, talk = process.communicate(timeout=60)

    cause = json.loads(line)
    assert (cause["rule"], cause["place"]["line"]) == ("team/licence-server", 2)
    assert (process.returncode, rest) == (130, b"")
    assert b"1 cause named in 1 log" in talk


ORIGIN_PROBLEMS = ROOT / "tests" / "support" / "origin_problems"


@pytest.mark.parametrize(
    ("logs", "root"),
    [
        pytest.param("blind-wait-*.log", ("blind-wait-engine.log", 5), id="an engine that is dead"),
        pytest.param("import-race-*.log", ("import-race-job.log", 1), id="an import race"),
    ],
)
def test_the_logs_of_the_problems_this_began_with_name_their_cause(
    logs: str, root: tuple[str, int]
) -> None:
    names = sorted(path.name for path in ORIGIN_PROBLEMS.glob(logs))

    ran = inside("diagnose", "--json", *names, cwd=ORIGIN_PROBLEMS)

    place = json.loads(ran.out)["facts"]["root_cause"]["place"]
    assert (place["file"], place["line"]) == root

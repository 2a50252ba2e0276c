# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor history` as it is typed: real files, a real SQLite database, a real PostgreSQL."""

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from ci_doctor.history.address import NEWEST, database_address
from ci_doctor.history.database import METADATA, reading
from ci_doctor.history.upkeep import open_database, upgrade
from tests.support import stand_in_agent
from tests.support.cli import ROOT, Ran, doctor, environment, inside, python_program
from tests.support.junit_texts import junit_of
from tests.support.postgres import NEEDS_POSTGRES, postgres

pytestmark = pytest.mark.integration
RECENT = "--days=100000"
LOG = """\
Traceback (most recent call last):
  File "x.py", line 3, in <module>
TypeError: f() got an unexpected keyword argument 'world_size'
"""


def history(*words: str | Path, cwd: Path, env: Mapping[str, str | None] | None = None) -> Ran:
    return inside("history", *words, cwd=cwd, env=env)


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    folder = tmp_path / "evidence"
    folder.mkdir()
    (folder / "one.xml").write_text(junit_of([("test_x", False), ("test_x", True)]))
    (folder / "two.xml").write_text(junit_of([("test_y", True)]))
    (folder / "notes.json").write_text("{}")
    return folder


def test_evidence_goes_in_once_and_a_flaky_test_comes_out(tmp_path: Path, evidence: Path) -> None:
    first = history("ingest", evidence, "--about", "commit=abc", cwd=tmp_path)
    again = history("ingest", "evidence/*.xml", "--json", cwd=tmp_path)
    flaky = history("flaky", RECENT, "--json", cwd=tmp_path)

    assert first.code == 0
    # On a busy machine it tells how far it is.
    said = [line for line in first.err.splitlines() if not line.startswith("read ")]
    assert not any(said)
    assert first.out.startswith("wrote 3 attempts of 2 new files to ci-doctor-history.sqlite")
    facts = json.loads(again.out)["facts"]
    assert (facts["files"], facts["known_files"]) == (0, 2)
    (test,) = json.loads(flaky.out)["facts"]["flaky"]
    assert (test["name"], test["is_proven"], test["mixed_commits"]) == ("test_x", True, 1)


def test_a_secret_in_the_name_of_a_test_or_a_label_never_reaches_the_database(
    tmp_path: Path,
) -> None:
    secret = "hunter2-of-the-build"
    (tmp_path / "one.xml").write_text(junit_of([(f"test_x[{secret}]", False)]))

    ran = history(
        *("ingest", "one.xml", "--about", f"label=cuda {secret}", "--about", "step=unit"),
        cwd=tmp_path,
        env={"DEPLOY_TOKEN": secret},
    )

    assert ran.code == 0, ran
    content = (tmp_path / "ci-doctor-history.sqlite").read_bytes()
    assert b"test_x[[redacted]]" in content
    assert b"unit (cuda [redacted])" in content
    assert secret.encode() not in content


def test_the_artifacts_of_builds_go_in_once_with_their_jobs(tmp_path: Path) -> None:
    log = tmp_path / "log"
    stand_in_agent.install(tmp_path / "bin", log)
    for job in ("j1", "j2"):
        text = junit_of([("test_x", job == "j1")])
        stand_in_agent.put_artifact(log, job, "out/junit.xml", text.encode())
    stand_in_agent.put_artifact(log, "j2", "notes.json", b"{}")
    environ = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "BUILDKITE": "true",
        "BUILDKITE_JOB_ID": "own",
        "BUILDKITE_BUILD_NUMBER": "900",
        "BUILDKITE_COMMIT": "abc",
        "BUILDKITE_STEP_KEY": "the-step-of-who-ingests",
    }

    first = history("ingest", "--build", "current", cwd=tmp_path, env=environ)
    again = history("ingest", "--build", "900", "--json", cwd=tmp_path, env=environ)
    flaky = history("flaky", RECENT, "--json", cwd=tmp_path)

    assert first.out.startswith("wrote 2 attempts of 2 new files"), first
    facts = json.loads(again.out)["facts"]
    assert (facts["files"], facts["known_files"]) == (0, 2)
    (test,) = json.loads(flaky.out)["facts"]["flaky"]
    assert (test["passed"], test["failed"], test["is_proven"]) == (1, 1, True)


def test_a_question_that_the_attempts_cannot_answer_is_void(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(
        '<testsuite><testcase classname="a" name="test_x" time="1"/></testsuite>'
    )
    history("ingest", "a.xml", "--about", "commit=abc", cwd=tmp_path)

    ran = history("began", "test_x", "--json", cwd=tmp_path)

    assert (ran.code, json.loads(ran.out)["verdict"]) == (86, "void"), ran
    assert "nothing can have begun" in json.loads(ran.out)["summary"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("flaky", "--database", "none.sqlite"), "there is no history at none.sqlite"),
        (("prune", "--keep-days", "9", "--database", "none.sqlite"), "there is no history at"),
        (("ingest",), "nothing is to be ingested"),
        # Outside a job the artifacts are to be downloaded first.
        (
            ("ingest", "--build", "https://buildkite.com/acme/serving/builds/812"),
            "no Buildkite job with a buildkite-agent",
        ),
    ],
)
@pytest.mark.gate(2)
def test_what_is_not_there_is_a_usage_error(
    tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    ran = history(*words, cwd=tmp_path, env={"PATH": ""})

    assert ran.code == 2, ran
    assert problem in ran.err
    assert not (tmp_path / "none.sqlite").exists()


def test_no_file_of_a_batch_costs_the_others_their_place(tmp_path: Path) -> None:
    folder = tmp_path / "evidence"
    (folder / "folder.xml").mkdir(parents=True)
    good = junit_of([("test_good", True)])
    (folder / "good.xml").write_text(good)
    declared = '<?xml version="1.0" encoding="{0}"?><testsuite name="s"><testcase name="\u4e2d"/></testsuite>'
    for name in ("shift_jis", "gbk", "utf-16"):
        (folder / f"{name}.xml").write_bytes(declared.format(name).encode(name))
    (folder / "latin.xml").write_bytes(good.replace("test_good", "caf\xe9").encode("latin-1"))
    (folder / "coverage.xml").write_text("<coverage/>")
    bad = {
        "junk.xml": b"\x89PNG", "cut.xml": good[:-9].encode(), "empty.xml": b"", "no-such.xml": declared.format("x-y").encode(),
        "bomb.xml": b'<!DOCTYPE t [<!ENTITY a "aa">]><testsuite>&a;</testsuite>', "nul.xml": bytes(99),
        "wrong.xml": declared.replace("\u4e2d", "\xff").format("gbk").encode("latin-1"), "cut.json": b'{"a":',
    }  # fmt: skip
    for name, content in bad.items():
        (folder / name).write_bytes(content)
    os.mkfifo(folder / "fifo.xml")

    ran = history("ingest", folder, "--json", cwd=tmp_path)

    facts = json.loads(ran.out)["facts"]
    assert ran.code == 0, ran
    assert {Path(place).name for place in facts["unreadable"]} == {*bad, "fifo.xml"}
    assert [Path(place).name for place in facts["other_xml"]] == ["coverage.xml"]
    assert facts["files"] == 5


def test_failures_of_a_fast_clock_count_and_are_told(tmp_path: Path) -> None:
    for name, red in (("one", True), ("two", False)):
        case = "<failure/>" if red else ""
        (tmp_path / f"{name}.xml").write_text(
            f'<testsuite name="{name}" timestamp="2199-01-01T00:00:00Z"><testcase classname="c" name="t">{case}'
            "</testcase></testsuite>"
        )
    ran = history("ingest", "one.xml", "two.xml", "--about", "commit=abc", "--json", cwd=tmp_path)
    flaky = history("flaky", "--json", cwd=tmp_path)

    report = json.loads(ran.out)
    assert [finding["rule"] for finding in report["findings"]] == ["history/moved-times"] * 2, ran
    (test,) = json.loads(flaky.out)["facts"]["flaky"]
    assert (test["passed"], test["failed"], test["is_proven"]) == (1, 1, True)


@pytest.mark.parametrize("place", [".", "report.json"])
@pytest.mark.gate(1)
def test_evidence_of_other_tools_is_void_with_what_to_write_in_its_place(
    place: str, tmp_path: Path
) -> None:
    tests = [{"nodeid": "test_a.py::test_x", "outcome": "failed"}]
    (tmp_path / "report.json").write_text(json.dumps({"exitcode": 1, "tests": tests}))

    ran = history("ingest", place, "--json", cwd=tmp_path)

    report = json.loads(ran.out)
    assert (ran.code, report["verdict"]) == (86, "void")
    assert "pytest --junit-xml" in report["summary"]


def test_without_the_extra_the_message_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "from importlib.machinery import PathFinder\n"
        "find = PathFinder.find_spec\n"
        "def hide(name, path=None, target=None):\n"
        "    return None if name == 'sqlalchemy' else find(name, path, target)\n"
        "PathFinder.find_spec = hide\n"
    )

    ran = doctor("history", "flaky", cwd=tmp_path, env={"PYTHONPATH": f"{tmp_path}:{ROOT}"})

    assert ran.code == 2
    assert "pip install 'ci-doctor-toolkit[history]'" in ran.err


def test_diagnose_says_how_often_a_cause_was_seen_and_its_report_counts_once(
    tmp_path: Path,
) -> None:
    (tmp_path / "job.log").write_text(LOG)
    (tmp_path / "ci-doctor.toml").write_text('[history]\ndatabase = "h.sqlite"\n')

    def diagnose(number: int) -> Ran:
        job = {
            "BUILDKITE": "true",
            "BUILDKITE_JOB_ID": f"job-{number}",
            "BUILDKITE_AGENT_NAME": f"gpu-{number}",
        }
        return inside("diagnose", "job.log", "--report-dir", f"r{number}", cwd=tmp_path, env=job)

    first, second = diagnose(1), diagnose(2)
    ingested = history("ingest", "r1", "r2", "--json", cwd=tmp_path)

    assert "not seen before in this history" in first.out
    assert "seen 1 time since" in second.out
    assert "last on agent gpu-1" in second.out
    assert "last on agent gpu-1" in (tmp_path / "r2" / "report.json").read_text()
    facts = json.loads(ingested.out)["facts"]
    assert (facts["files"], facts["known_files"]) == (0, 2)


@pytest.mark.parametrize(
    ("database", "line"),
    [
        ("h.sqlite", "not seen before in this history"),
        ("mysql://db/x", "not written: --database: no database is reached by mysql"),
    ],
)
@pytest.mark.gate(1)
def test_pytest_writes_its_attempts_and_keeps_its_exit_code(
    tmp_path: Path, database: str, line: str
) -> None:
    (tmp_path / "test_one.py").write_text("def test_red(): assert False\n")
    words = ("pytest", "--python", sys.executable, "--reruns=0", "--", "-p", "no:cacheprovider")

    ran = inside(*words, cwd=tmp_path, env={"CI_DOCTOR_HISTORY_DATABASE": database})

    assert ran.code == 1, ran
    assert line in ran.err
    assert (tmp_path / "h.sqlite").exists() == (database == "h.sqlite")


@NEEDS_POSTGRES
@pytest.mark.nightly
def test_a_shared_database_is_made_by_upgrade_alone(tmp_path: Path, evidence: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with postgres(Path(folder) / "s") as url:
            missing = url.replace("/postgres?", "/nobody?")
            nobody = history("flaky", "--database", missing, cwd=tmp_path)
            refused = history("ingest", evidence, "--database", url, cwd=tmp_path)
            made = history("upgrade", "--database", url, cwd=tmp_path)
            again = upgrade(database_address(url), busy_s=60)
            engine = open_database(database_address(url), busy_s=60)
            with reading(engine) as connection:
                differences = compare_metadata(MigrationContext.configure(connection), METADATA)
            engine.dispose()
            history("ingest", evidence, "--about=commit=abc", "--database", url, cwd=tmp_path)
            answers = [
                history(*words, "--database", url, cwd=tmp_path)
                for words in (
                    ("flaky", RECENT),
                    ("report", RECENT, "--report-dir", "page"),
                    ("prune", "--keep-days", "1"),
                )
            ]

    assert nobody.code == 2, nobody
    assert "there is no such database" in " ".join(nobody.err.split())
    assert "createdb" in nobody.err
    assert (refused.code, made.code) == (2, 0)
    assert (again, differences) == (NEWEST, [])
    assert "ci-doctor history upgrade" in refused.err
    assert [answer.code for answer in answers] == [0] * 3, answers
    assert answers[0].out.startswith("1 test of 2 flaky")
    assert (tmp_path / "page" / "report.html").exists()
    assert "removed 3 attempts" in answers[2].out


def test_no_other_command_pays_for_the_libraries_of_a_history(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "import ci_doctor.cli, ci_doctor.commands.diagnose, ci_doctor.commands.history\n"
        "import ci_doctor.commands.correctness_experiment, ci_doctor.commands.config\n"
        "import ci_doctor.commands.launch, ci_doctor.commands.wait, ci_doctor.commands.restart_check\n"
        "print({each.partition('.')[0] for each in sys.modules} & {'sqlalchemy', 'alembic'})\n"
    )

    assert python_program(program, env=environment(), cwd=tmp_path).stdout == "set()\n"

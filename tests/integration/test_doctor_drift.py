# SPDX-License-Identifier: Apache-2.0
"""What changed since the last green run: two real environments, and the reports of real failures."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Ran, doctor, inside, python_program
from tests.support.wheels import add_package, make_venv

pytestmark = pytest.mark.integration

PACKAGES = 100
SECRET = "hunter2-hunter2-hunter2"
LAUNCH = ("launch", "--service", "a=sleep 600", "--ready", "a=exec:true")


@pytest.fixture(scope="module")
def venvs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`green` and `now`: a hundred packages each, four of them not the same."""
    root = tmp_path_factory.mktemp("venvs")
    for name, transformers in (("green", "5.4.0"), ("now", "5.5.0")):
        site = make_venv(root / name)
        for number in range(PACKAGES - 4):
            add_package(site, f"package-{number}", "1.0")
        add_package(site, "transformers", transformers)
        add_package(site, "rebuilt", "2.0", text=f"BUILT_FOR = {name!r}\n")
        patched = add_package(site, "patched", "3.0")
        if name == "now":
            patched.write_text("VERSION = 'patched in place'\n")
        add_package(site, "pinned", "1.10" if name == "green" else "1.9")
    return root


@pytest.fixture(scope="module")
def snapshots(venvs: Path) -> Path:
    """`green.json` and `now.json`, with contents."""
    for name in ("green", "now"):
        file = venvs / f"{name}.json"
        options = ("--hash-files", "-o", file, "--step", "serving")
        ran = snapshot(venvs, "--venv", venvs / name, *options)
        assert (ran.code, read(file)["about"]["step"]) == (0, "serving"), ran
    return venvs


def snapshot(cwd: Path, *args: str | Path, **env: str) -> Ran:
    return inside("env", "snapshot", *args, cwd=cwd, env=env)


def diff(cwd: Path, *args: str | Path) -> Ran:
    return inside("env", "diff", *args, cwd=cwd)


def launch(*args: str, cwd: Path, env: Mapping[str, str] = {}) -> Ran:
    """A run that records the environment of its folder."""
    return inside(*LAUNCH, *args, cwd=cwd, env={"VIRTUAL_ENV": None, **env})


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def test_every_change_of_two_real_environments_is_named(snapshots: Path) -> None:
    ran = diff(snapshots, "green.json", "now.json", "--only", "packages")

    assert ran.code == 0
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert lines[0] == (
        "5 differences: 1 breaks comparability, 3 can explain failures, 1 informational"
    )
    assert "transformers 5.4.0 -> 5.5.0" in lines
    assert "patched 3.0: the same version, other bytes: patched/__init__.py" in lines
    assert "rebuilt 2.0: the same version, other bytes: rebuilt/__init__.py" in lines
    assert "pinned 1.10 -> 1.9" in lines
    programs = diff(snapshots, "green.json", "now.json", "--json")
    changes = {each["subject"]: each for each in json.loads(programs.out)["facts"]["changes"]}
    assert changes["patched"]["kind"] == "bytes"
    (file,) = changes["patched"]["files"]
    assert file["path"] == "patched/__init__.py"
    assert file["before"] != file["after"]


def test_no_secret_is_written(tmp_path: Path) -> None:
    make_venv(tmp_path / ".venv")
    environ = {
        "HF_TOKEN": SECRET,
        "VLLM_API_KEY": SECRET,
        "LMCACHE_REMOTE_URL": f"redis://:{SECRET}@cache:6379",
        "HTTPS_PROXY": f"http://user:{SECRET}@proxy:3128",
        "MY_SETTING": SECRET,
        "VLLM_USE_V1": "1",
    }

    ran = snapshot(tmp_path, **environ)

    assert ran.code == 0, ran
    assert SECRET not in ran.out + ran.err
    variables = json.loads(ran.out)["variables"]
    assert variables["VLLM_USE_V1"] == "1"
    assert variables["HTTPS_PROXY"] == "http://proxy:3128"
    assert {name: variables[name] for name in environ if SECRET in environ[name]} == {
        "HF_TOKEN": None,
        "VLLM_API_KEY": None,
        "LMCACHE_REMOTE_URL": None,
        "HTTPS_PROXY": "http://proxy:3128",
        "MY_SETTING": None,
    }


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout whose last run passed, with a newer package since then. Reports go below it."""
    root = tmp_path_factory.mktemp("job")
    site = make_venv(root / ".venv")
    add_package(site, "transformers", "5.4.0")
    green = launch("--report-dir", "green", "--", "true", cwd=root)
    assert green.code == 0, green
    (site / "transformers-5.4.0.dist-info").rename(site / "gone")
    add_package(site, "transformers", "5.5.0")
    (root / "ci-doctor.toml").write_text('[doctor]\nsince_green = "green"\n')
    return root


def test_the_report_of_a_failure_names_what_changed(job: Path) -> None:
    ran = launch("--report-dir", "now", "--", "false", cwd=job)

    assert ran.code == 1
    assert "since the last green run: transformers 5.4.0 -> 5.5.0" in ran.err
    report = read(job / "now" / "report.json")
    (table,) = [each for each in report["tables"] if each["title"].startswith("Since the last")]
    assert table["rows"][1]["label"] == ("transformers 5.4.0 -> 5.5.0")
    assert "environment.json" in {each["path"] for each in report["attachments"]}
    again = diff(job, "green", "now", "--only", "packages")
    assert "transformers 5.4.0 -> 5.5.0" in again.out


def test_the_talk_about_a_failed_command_names_what_changed(job: Path) -> None:
    program = ("--", sys.executable, "-c", "raise SystemExit(3)")
    options = ("--determinism", "off", "--diagnose", "--report-dir", "talk")

    ran = doctor("run", *options, *program, cwd=job)

    assert ran.code == 3
    assert "since the last green run: transformers 5.4.0 -> 5.5.0\n" in ran.err


def test_the_doctor_says_what_changed(job: Path) -> None:
    ran = inside("doctor", "machine", "--since-green", "green", "--json", cwd=job)

    facts = json.loads(ran.out)["facts"]["since_green"]
    assert [each["subject"] for each in facts["drift"]["changes"]] == ["transformers"]
    assert facts["unknown"] is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_than_root_records_the_same_facts(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    program = (
        "import os, sys\n"
        "from ci_doctor.drift.machine import read_machine\n"
        "from ci_doctor.drift.reading import read_system_packages\n"
        "if sys.argv[1] == 'nobody': os.setuid(65534)\n"
        "print(sorted(read_machine({}, gpu_limit_s=15).unknown), read_system_packages(dict(os.environ)).unknown)\n"
    )
    root, nobody = (python_program(program, user, timeout=60) for user in ("root", "nobody"))
    assert root.stdout == nobody.stdout


def test_a_death_does_not_wait_for_an_interpreter_that_hangs(tmp_path: Path) -> None:
    shims = tmp_path / "shims"
    shims.mkdir()
    (shims / "python3").write_text("#!/bin/sh\nexec sleep 600\n")
    (shims / "python3").chmod(0o755)
    variables = {"PATH": f"{shims}:{os.environ['PATH']}", "VIRTUAL_ENV": ""}

    line = ("launch", "--service", "a=false", "--ready", "a=file:never", "--report-dir", "out")
    ran = inside(*line, cwd=tmp_path, env=variables)

    assert ran.code == 1, ran
    # A busy machine may need longer for the launch than the environment may take.
    sentences = ("ended before the environment was read", "could not be read within")
    report = (tmp_path / "out" / "report.json").read_text()
    assert any(sentence in report for sentence in sentences), ran
    assert not (tmp_path / "out" / "environment.json").exists()


def test_the_snapshot_of_a_run_names_the_folder_that_has_other_bytes(tmp_path: Path) -> None:
    site = make_venv(tmp_path / ".venv")
    add_package(site, "kernels", "1.0")
    assert launch("--report-dir", "before", "--", "true", cwd=tmp_path).code == 0
    record = site / "kernels-1.0.dist-info" / "RECORD"
    record.write_text(f"{record.read_text()}kernels/ops/a.py,sha256={'A' * 43},1\n")

    assert launch("--report-dir", "after", "--", "true", cwd=tmp_path).code == 0

    ran = diff(tmp_path, "before", "after", "--only", "packages")
    assert "kernels 1.0: the same version, other bytes: kernels/ops/" in ran.out
    (package,) = [
        each["packages"]["kernels"]
        for each in read(tmp_path / "after" / "environment.json")["interpreters"]
    ]
    assert "files" not in package

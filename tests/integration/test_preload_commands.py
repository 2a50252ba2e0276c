# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor preload install`, `status` and `remove`, as people type them."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.integration.preload_venvs import Venv, interpreters
from tests.support.cli import inside

pytestmark = pytest.mark.integration

RULE = "serve=json:dumps"
VLLM = "vllm.entrypoints.cli.main=transformers:GenerationConfig,PretrainedConfig"


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    return Venv(interpreters()["own"], tmp_path / ".venv")


def rules_shown(directory: Path) -> list[str]:
    """The rules that `preload status` prints, in its order."""
    status = inside("preload", "status", cwd=directory)
    rows = [line.split() for line in status.out.splitlines()]
    return [words[1] for words in rows if words[:1] == ["rule"]]


def test_all_ways_to_give_a_rule_unite(venv: Venv, tmp_path: Path) -> None:
    line = (
        "preload",
        "install",
        "vllm",
        "--rule",
        RULE,
        "third=json",
        "--venv",
        venv.directory,
    )
    assert inside(*line, cwd=tmp_path).code == 0
    assert rules_shown(tmp_path) == [RULE, "third=json", VLLM]


def test_rules_of_the_configuration_are_meant_where_none_is_typed(
    venv: Venv, tmp_path: Path
) -> None:
    (tmp_path / "ci-doctor.toml").write_text('[setup-env]\npreload = ["vllm"]\nvenvs = [".venv"]\n')
    below = tmp_path / "below"
    below.mkdir()
    assert inside("preload", "install", cwd=below).code == 0
    assert rules_shown(below) == [VLLM]
    replaced = inside("preload", "install", "--replace", RULE, "--json", cwd=below)
    assert json.loads(replaced.out)["facts"]["targets"][0]["rules"] == [RULE]


def test_setup_env_knows_the_presets(venv: Venv, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "pkg"\nversion = "1.0"\n')
    assert inside("setup-env", "--preload", "vllm", cwd=tmp_path).code == 0
    assert rules_shown(tmp_path) == [VLLM]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["install"], "name a preset (vllm)"),
        (["install", "vlm"], "did you mean `vllm`?"),
        (["install", "a=b c"], "write TRIGGER=MODULE"),
    ],
)
def test_what_cannot_be_a_rule_is_a_usage_error(
    venv: Venv, tmp_path: Path, line: list[str], said: str
) -> None:
    before = venv.files()
    ran = inside("preload", *line, cwd=tmp_path)
    assert (ran.code, ran.out, said in " ".join(ran.err.split()), venv.files()) == (
        2,
        "",
        True,
        before,
    ), ran


def test_each_target_is_told_and_a_refused_one_holds_back_the_others(
    venv: Venv, tmp_path: Path
) -> None:
    before = venv.files()
    # The one that would do comes first.
    targets = ("--python", venv.python, "--python", "no-such-python")
    ran = inside("preload", "install", RULE, "--json", *targets, cwd=tmp_path)
    report = json.loads(ran.out)
    states = {Path(each["python"]).name: each["state"] for each in report["facts"]["targets"]}
    assert (ran.code, report["verdict"], states) == (
        2,
        None,
        {"no-such-python": "refused", "python": "held back"},
    ), ran
    refused = next(each["refused"] for each in report["facts"]["targets"] if each["refused"])
    assert (refused["exit_code"], bool(refused["hint"])) == (2, True)
    assert venv.files() == before


def test_removing_says_what_it_would_remove_and_then_leaves_nothing(
    venv: Venv, tmp_path: Path
) -> None:
    before = venv.files()
    assert inside("preload", "install", RULE, "second=json", cwd=tmp_path).code == 0
    armed = venv.files()
    assert "would remove 6 files" in inside("preload", "remove", "--dry-run", cwd=tmp_path).out
    assert venv.files() == armed
    assert inside("preload", "remove", "--trigger", "second", cwd=tmp_path).code == 0
    assert rules_shown(tmp_path) == [RULE]
    assert "removed 6 files" in inside("preload", "remove", cwd=tmp_path).out
    assert venv.files() == before
    assert "nothing to change in 1 interpreter" in inside("preload", "remove", cwd=tmp_path).out


def test_status_shows_what_runs_at_every_start_with_its_cost(venv: Venv, tmp_path: Path) -> None:
    venv.put({"theirs.py": "", "theirs.pth": "import theirs\n"})
    assert inside("preload", "install", RULE, cwd=tmp_path).code == 0
    ran = inside(
        "preload", "status", "--json", "--venv", ".venv", "--python", "no-such-python", cwd=tmp_path
    )
    report = json.loads(ran.out)
    told = {each["state"]: each for each in report["facts"]["shims"]}
    assert (ran.code, set(told)) == (2, {"asked", "refused"}), ran
    assert (told["asked"]["installed"], told["asked"]["rules"]) == (True, [RULE])
    files = told["asked"]["start_up"]
    assert {Path(file["path"]).name for file in files} >= {"theirs.pth", "ci_doctor_preload.pth"}
    assert any(table["title"].startswith("Start-up files") for table in report["tables"])


@pytest.mark.parametrize("name", ["ci_doctor_preload.pth", "_ci_doctor_preload.py"])
@pytest.mark.gate(1)
def test_a_truncated_shim_is_seen_and_python_starts_and_what_to_do_helps(
    name: str, venv: Venv, tmp_path: Path
) -> None:
    before = venv.files()
    assert inside("preload", "install", RULE, cwd=tmp_path).code == 0
    path = venv.site_dir / name
    path.write_bytes(path.read_bytes()[:150])

    started = venv.run("-c", "print(1)")
    assert (started.returncode, started.stdout) == (0, "1\n")
    status = inside("preload", "status", cwd=tmp_path)
    assert "edited" in status.out, status
    verify = inside("preload", "verify", "--runs", "1", cwd=tmp_path)
    assert verify.code == 1, verify
    for command in (("install", RULE), ("remove",)):
        refused = inside("preload", *command, "--json", cwd=tmp_path)
        report = json.loads(refused.out)
        assert (refused.code, report["findings"][0]["rule"]) == (1, "preload/edited-file"), refused
        assert f"mv {path} /tmp/" in report["findings"][0]["remedy"]

    path.unlink()
    assert inside("preload", "install", RULE, cwd=tmp_path).code == 0
    assert "edited" not in inside("preload", "status", cwd=tmp_path).out
    assert inside("preload", "remove", cwd=tmp_path).code == 0
    assert venv.files() == before


@pytest.mark.parametrize("command", ["status", "install", "verify", "remove"])
@pytest.mark.gate(1)
def test_a_name_with_a_line_break_is_an_error_of_the_user(command: str, tmp_path: Path) -> None:
    words = ("--rule", RULE) if command == "install" else ()

    ran = inside("preload", command, "--venv", "new\nline", *words, cwd=tmp_path)

    assert ran.code == 2, ran


@pytest.mark.gate(1)
@pytest.mark.parametrize("name", ["new\nline", "-dash", "s\u2028ep", os.fsdecode(b"caf\xe9")])
def test_an_environment_with_an_odd_name_is_served(name: str, tmp_path: Path) -> None:
    venv = Venv(interpreters()["own"], tmp_path / "v")
    venv.directory.rename(tmp_path / name)

    for command in (("install", RULE), ("status",), ("remove",)):
        ran = inside("preload", *command, f"--venv={name}", cwd=tmp_path)
        assert ran.code == 0, ran

    assert not list((tmp_path / name).rglob("*ci_doctor*"))


def test_a_shim_that_lost_its_modules_says_nothing_and_its_first_line_removes_the_rest(
    venv: Venv,
) -> None:
    before = venv.files()
    venv.put_shim(RULE)
    (venv.site_dir / "_ci_doctor_preload_rt.py").unlink()
    without_runtime = venv.run("-c", "import json, sys; print(1)")
    (venv.site_dir / "_ci_doctor_preload.py").unlink()
    without_finder = venv.run("-c", "print(1)")
    venv.put_shim(RULE)
    (line,) = {file.read_text().splitlines()[0] for file in venv.site_dir.glob("*ci_doctor*")}
    subprocess.run(line.rpartition(": ")[2], shell=True, check=True, cwd=venv.site_dir)

    for ran in (without_runtime, without_finder):
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "1\n", "")
    assert venv.files().keys() - before.keys() <= {"__pycache__"}


def test_remove_all_removes_each_shim_that_this_user_installed_but_an_edited_one(
    tmp_path: Path,
) -> None:
    known = tmp_path / "home", tmp_path / "elsewhere"
    venvs = [Venv(interpreters()["own"], tmp_path / name) for name in ("a/.venv", "b/v", "c/v")]
    for folder in known:
        folder.mkdir()
    # No interpreter of this machine is one of them.
    environ = {"HOME": str(known[0]), "XDG_STATE_HOME": "", "PATH": str(known[1])}
    words = [f"--venv={each.directory}" for each in venvs]
    assert inside("preload", "install", RULE, *words, cwd=tmp_path, env=environ).code == 0
    venvs[0].python.unlink()
    edited = venvs[1].site_dir / "_ci_doctor_preload.py"
    edited.write_text(f"{edited.read_text()}# mine\n")

    ran = inside("preload", "remove", "--all", cwd=known[1], env=environ)

    assert (ran.code, "removed" in ran.err, str(edited) in ran.err) == (1, True, True), ran
    left = [bool(list(each.site_dir.glob("*ci_doctor*"))) for each in venvs]
    assert left == [False, True, False]

    edited.unlink()
    assert inside("preload", "remove", "--all", cwd=known[1], env=environ).code == 0
    assert not list(venvs[1].site_dir.glob("*ci_doctor*"))
    again = inside("preload", "remove", "--all", "--dry-run", cwd=known[1], env=environ)
    assert (again.code, "no shim was found" in again.out) == (0, True), again
    assert not list(known[0].rglob("preload-sites"))

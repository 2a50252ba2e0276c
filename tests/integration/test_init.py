# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor init` in real repositories, and what it writes run by the programs that it is for."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

import pytest
import yaml

from tests.support import cli
from tests.support.cli import ADDRESS, COMMIT, ROOT, Ran, installed_from, words
from tests.support.controlling_terminal import ControllingTerminal
from tests.support.git_repository import git, make_repository
from tests.support.repository_layouts import ENGINE, KV_CACHE, SMALL_APP, build

pytestmark = pytest.mark.integration

# `python` and `uvicorn` of a command are those of the tests' own environment.
TOOLS = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
WRITTEN = [
    ".buildkite/ci-doctor.yml",
    ".pre-commit-config.yaml",
    "ci-doctor-requests.jsonl",
    "ci-doctor.schema.json",
    "ci-doctor.toml",
]
WORKFLOW = (
    "name: t\non: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n      - run: pytest\n"
)


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> None:
    """This ci-doctor came from a commit of a repository, whatever the one of the tests came from."""
    TOOLS.update(installed_from(tmp_path_factory.mktemp("installed")))


def doctor(*args: str | Path, cwd: Path, env: Mapping[str, str] = {}) -> Ran:
    environ = {**TOOLS, **env}
    with mock.patch.object(sys, "path", [*environ["PYTHONPATH"].split(os.pathsep), *sys.path]):
        return cli.inside(*args, cwd=cwd, env=environ)


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    directory = build(tmp_path / "a repository", ENGINE)
    make_repository(directory, {"README.md": "x\n"})
    return directory


def untracked(directory: Path) -> list[str]:
    """What git sees as new since the last commit."""
    return sorted(git(directory, "ls-files", "--others", "--exclude-standard").splitlines())


def state(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file() and ".git" not in path.parts)
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def checked(tool: str, *arguments: str, cwd: Path) -> None:
    """Run a tool that checks a file by its schema."""
    program = Path(sys.executable).parent / tool
    ran = subprocess.run(
        [program, *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.nightly
def test_the_page_shows_what_its_commands_print(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "init.md").read_text(encoding="utf-8")
    shown = page.partition("```console\n$ ci-doctor init --yes\n")[2].partition("```")[0]
    written, _, verdict = shown.partition("$ ci-doctor correctness\n")
    for source in (ROOT / "examples" / "tiny-llm").glob("*.py"):
        shutil.copy(source, tmp_path)
    for name, text in {
        ".buildkite/pipeline.yml": "steps:\n  - command: bash ci/test.sh\n",
        "ci/test.sh": "python server.py --plan split8 --port 8000 &\nsleep 10\npytest tests\n",
    }.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    ran = doctor("init", "--yes", cwd=tmp_path, env={"COLUMNS": "80"})
    above, _, _ = written.partition("  …\n")
    assert ran.out.startswith(above), ran
    judged = doctor("correctness", cwd=tmp_path, env={"COLUMNS": "80"})
    assert judged.code == 0, judged
    # Without its duration.
    assert judged.out.split("\n")[1:3] == verdict.split("\n")[1:3], judged


def test_an_application_gets_one_request_to_put_others_in_its_place(tmp_path: Path) -> None:
    directory = tmp_path / "my service"
    directory.mkdir()
    (directory / "web.py").write_text("from fastapi import FastAPI\napp = FastAPI()\n")
    (directory / "Dockerfile").write_text('CMD ["uvicorn", "web:app", "--reload"]\n')
    wrote = doctor("init", "--yes", cwd=directory)
    assert wrote.code == 0, wrote
    (line,) = (directory / "ci-doctor-requests.jsonl").read_text().splitlines()
    assert json.loads(line)["path"] == "/"
    text = (directory / "ci-doctor.toml").read_text()
    assert "put those of your application in its place" in text
    assert 'command = "uvicorn web:app --port {port}"' in text


def test_what_is_written_is_what_its_readers_take(engine: Path) -> None:
    workflows = engine / ".github" / "workflows"
    workflows.mkdir(parents=True)
    (workflows / "test.yml").write_text(WORKFLOW)
    assert doctor("init", "--yes", cwd=engine).code == 0
    schema = "vendor.buildkite"
    checked("check-jsonschema", "--builtin-schema", schema, ".buildkite/ci-doctor.yml", cwd=engine)
    schema = "vendor.github-workflows"
    checked("check-jsonschema", "--builtin-schema", schema, ".github/workflows/ci-doctor.yml", cwd=engine)  # fmt: skip
    checked("pre-commit", "validate-config", ".pre-commit-config.yaml", cwd=engine)
    installing = f"git+{ADDRESS}@{COMMIT}"
    for name in (
        ".buildkite/ci-doctor.yml",
        ".github/workflows/ci-doctor.yml",
        ".pre-commit-config.yaml",
    ):
        assert installing in (engine / name).read_text()
    linted = doctor("lint", ".buildkite/ci-doctor.yml", ".pre-commit-config.yaml", "ci-doctor.toml", cwd=engine)  # fmt: skip
    assert (linted.code, "nothing to report" in linted.out) == (0, True), linted
    shown = doctor("config", "show", cwd=engine)
    assert (shown.code, "vllm-candidate" in shown.out) == (0, True), shown
    printed = doctor("config", "schema", cwd=engine)
    assert f"{printed.out.rstrip()}\n" == (engine / "ci-doctor.schema.json").read_text()
    before = state(engine)
    again = doctor("init", "--yes", cwd=engine)
    assert (again.code, "nothing to write" in again.out) == (0, True), again
    assert state(engine) == before


def test_without_a_terminal_nothing_is_written_and_the_diff_is_one_that_git_applies(
    engine: Path,
) -> None:
    own = untracked(engine)
    before = state(engine)
    ran = doctor("init", cwd=engine)
    assert ran.code == 0, ran
    assert "none written" in ran.err
    assert "--yes" in ran.err
    assert state(engine) == before
    (engine.parent / "init.patch").write_text(ran.out)
    git(engine, "apply", str(engine.parent / "init.patch"))
    assert untracked(engine) == sorted([*own, *WRITTEN])
    applied = state(engine)
    for name in WRITTEN:
        (engine / name).unlink()
    assert doctor("init", "--yes", cwd=engine).code == 0
    assert state(engine) == applied


@pytest.mark.nightly
def test_the_documented_pipe_to_git_makes_every_file_in_a_directory_below_the_top(
    engine: Path,
) -> None:
    ran = doctor("init", "--help", cwd=engine)
    example = next(line.strip() for line in ran.out.splitlines() if "apply" in line and "|" in line)
    (engine / "a sub").mkdir()
    (engine / "a sub" / "serve.sh").write_text("vllm serve acme/Tiny\n")
    subprocess.run(
        ["bash", "-ec", example],
        cwd=engine / "a sub",
        env={**os.environ, **TOOLS},
        capture_output=True,
        check=True,
    )
    assert (engine / "a sub" / "ci-doctor.toml").exists()
    for name in (".buildkite/ci-doctor.yml", ".pre-commit-config.yaml"):
        assert (engine / name).exists(), name


def test_a_dry_run_with_yes_still_writes_nothing(engine: Path) -> None:
    before = state(engine)
    ran = doctor("init", "--yes", "--dry-run", "--json", cwd=engine)
    report = json.loads(ran.out)
    assert (ran.code, report["verdict"]) == (0, None), ran
    assert state(engine) == before
    facts = report["facts"]
    assert [file["path"] for file in facts["files"] if not file["is_written"]] == [
        "ci-doctor.toml",
        "ci-doctor.schema.json",
        "ci-doctor-requests.jsonl",
        ".buildkite/ci-doctor.yml",
        ".pre-commit-config.yaml",
    ]
    assert facts["servers"][0]["origin"] == ".buildkite/scripts/serve.sh:5"
    assert facts["queues"] == ["gpu_1"]


def test_from_a_path_the_hook_stays_on_this_machine_and_runs(engine: Path, tmp_path: Path) -> None:
    before = set(untracked(engine))
    env = installed_from(tmp_path / "installed", tmp_path / "a clone")
    ran = doctor("init", "--yes", cwd=engine, env=env)
    reason = f"is not proposed: this ci-doctor was installed from {tmp_path}/a clone"
    assert reason in " ".join(ran.out.split()), ran
    texts = [(engine / name).read_text() for name in set(untracked(engine)) - before]
    assert len(texts) == 3
    assert not [text for text in texts if sys.prefix in text or str(tmp_path) in text]
    (engine / "bad.sh").write_text("#!/bin/sh\nif true\n")
    git(engine, "add", "--all")
    run = [sys.executable, "-m", "pre_commit", "run", "-a", "-c", ".ci-doctor/pre-commit.yaml"]
    hook = subprocess.run(
        run, cwd=engine, env=cli.environment(), capture_output=True, text=True, check=False
    )
    assert (hook.returncode, "bad.sh" in hook.stdout) == (1, True), hook.stdout + hook.stderr


def test_what_exists_is_kept_and_what_to_paste_is_printed(engine: Path) -> None:
    own = {
        ".buildkite/ci-doctor.yml": "steps: []\n",
        ".pre-commit-config.yaml": "repos:\n- repo: meta\n  hooks: [{id: identity}]\n",
        "ci-doctor-requests.jsonl": '{"id": "mine", "body": {}}\n',
    }
    for name, text in own.items():
        (engine / name).write_text(text)
    ran = doctor("init", "--yes", cwd=engine)
    assert ran.code == 0, ran
    assert {name: (engine / name).read_text() for name in own} == own
    # As a person copies it from a terminal.
    place = "after line 3, the last of `repos`\n"
    pasted = own[".pre-commit-config.yaml"] + ran.out.rpartition(place)[2]
    (hook,) = yaml.safe_load(pasted)["repos"][1]["hooks"]
    assert hook["additional_dependencies"] == [f"git+{ADDRESS}@{COMMIT}"]
    for name in (".buildkite/ci-doctor.yml", "ci-doctor-requests.jsonl"):
        assert f"{name} exists and is not changed" in ran.out


def test_a_link_to_nothing_is_a_file_that_exists(engine: Path, tmp_path: Path) -> None:
    (engine / "ci-doctor.toml").symlink_to(tmp_path / "elsewhere.toml")
    ran = doctor("init", "--yes", cwd=engine)
    assert ran.code == 0, ran
    assert (engine / "ci-doctor.toml").is_symlink()
    assert not (tmp_path / "elsewhere.toml").exists()


@pytest.mark.parametrize("place", ["bare", "checkout/.git"])
@pytest.mark.gate(1)
def test_a_repository_without_files_is_a_usage_error(place: str, tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "bare")
    git(tmp_path, "init", "--quiet", "checkout")
    ran = doctor("init", "--yes", cwd=tmp_path / place)
    assert ran.code == 2, ran
    assert "hint: run it in a checkout" in ran.err, ran


def test_in_a_directory_of_a_monorepo_the_configuration_stays_there(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "mono", {"README.md": "x\n"})
    build(root / "services" / "api", SMALL_APP)
    ran = doctor("init", "--yes", cwd=root / "services" / "api")
    assert ran.code == 0, ran
    assert set(untracked(root)) >= {
        ".buildkite/ci-doctor.yml",
        ".pre-commit-config.yaml",
        "services/api/ci-doctor.toml",
        "services/api/ci-doctor-requests.jsonl",
    }
    pipeline = (root / ".buildkite" / "ci-doctor.yml").read_text()
    assert "ci-doctor correctness --config services/api/ci-doctor.toml" in pipeline
    assert 'config: "services/api/ci-doctor.toml"' in pipeline


@pytest.mark.parametrize("kind", ["file", "link"])
@pytest.mark.gate(1)
def test_a_folder_that_is_none_of_the_repository_is_named_and_all_else_is_written(
    engine: Path, kind: str
) -> None:
    shutil.rmtree(engine / ".buildkite")
    outside = engine.parent / "outside"
    outside.mkdir()
    if kind == "link":
        (engine / ".buildkite").symlink_to(outside)
    else:
        (engine / ".buildkite").write_text("mine")
    (engine / "serve.sh").write_text("vllm serve acme/Tiny\n")
    ran = doctor("init", "--yes", cwd=engine)
    assert ran.code == 0, ran
    reason = "leads out of the repository" if kind == "link" else "is no directory"
    assert f".buildkite/ci-doctor.yml cannot be written: .buildkite {reason}" in " ".join(
        ran.out.split()
    )
    assert (engine / "ci-doctor.toml").exists()
    assert list(outside.iterdir()) == []


def test_files_of_every_kind_are_read_or_named(tmp_path: Path) -> None:
    (tmp_path / "latin.sh").write_bytes(b"# caf\xe9\nvllm serve acme/a --port 1\n")
    (tmp_path / "dos.sh").write_bytes(b"vllm serve acme/b \\\r\n  --seed 1 --port 2\r\n")
    (tmp_path / "huge.sh").write_bytes(b"vllm serve acme/c\n" + b"#" * (1 << 20))
    (tmp_path / "outside.sh").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe.sh")
    ran = doctor("init", "--json", cwd=tmp_path)
    facts = json.loads(ran.out)["facts"]
    commands = [" ".join(server["command"]) for server in facts["servers"]]
    assert commands == ["vllm serve acme/a --port {port}", "vllm serve acme/b --seed 1 --port {port}"]  # fmt: skip
    assert facts["files_unread"] == ["huge.sh"]


def test_no_secret_of_a_script_reaches_a_file_or_the_output(tmp_path: Path) -> None:
    token = "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ012345678"
    (tmp_path / "serve.sh").write_text(
        f"HF_TOKEN={token} vllm serve acme/a --api-key {token[3:]} --port 1 &\n"
    )
    ran = doctor("init", "--yes", cwd=tmp_path)
    assert ran.code == 0, ran
    everything = ran.out + ran.err + "".join(text.decode() for text in state(tmp_path).values())
    assert everything.count(token[3:]) == 2  # those of the script itself
    assert "HF_TOKEN comes from the environment of the job" in (tmp_path / "ci-doctor.toml").read_text()  # fmt: skip


class TestOnATerminal:
    """A person is asked little, and nothing is written before the answer."""

    def asked(self, directory: Path, **answers: bytes) -> tuple[int, str]:
        with ControllingTerminal(words("init"), cwd=directory) as terminal:
            for question, keys in answers.items():
                # The end of the question, too: the diff has a word of it.
                terminal.read_until(b"[Y/n]: " if question == "write" else question.encode())
                terminal.press(keys)
            return terminal.wait(), terminal.written.decode()

    def test_the_two_servers_that_were_chosen_are_written(self, tmp_path: Path) -> None:
        (tmp_path / "serve.sh").write_text(
            "vllm serve acme/a --port 1\nvllm serve acme/a --dtype float32 --port 2\n"
        )
        code, written = self.asked(tmp_path, Baseline=b"1\r", Candidate=b"2\r", write=b"y\r")
        assert code == 0, written
        text = (tmp_path / "ci-doctor.toml").read_text()
        assert "# the two differ by --dtype float32" in text
        assert 'command = "vllm serve acme/a --dtype float32 --port {port}"' in text

    def test_no_writes_nothing_and_a_clear_pair_is_no_question(self, tmp_path: Path) -> None:
        build(tmp_path, KV_CACHE)
        before = state(tmp_path)
        code, written = self.asked(tmp_path, write=b"n\r")
        assert (code, "you said no" in written, "Baseline" in written) == (0, True, False), written
        assert state(tmp_path) == before

    def test_ctrl_c_writes_nothing(self, tmp_path: Path) -> None:
        build(tmp_path, KV_CACHE)
        before = state(tmp_path)
        # The end of input behind it: a signal just before read(2) waits for the next key.
        code, written = self.asked(tmp_path, write=b"\x03\x04")
        assert code == 130, written
        assert state(tmp_path) == before


def test_the_report_of_a_failed_write_is_a_usage_error_with_json_too(engine: Path) -> None:
    (engine / "ci-doctor.toml").write_text("[nonsense]\n")
    ran = doctor("init", "--json", cwd=engine)
    assert (ran.code, json.loads(ran.out)["exit_code"]) == (2, 2), ran
    assert "unknown section `nonsense`" in ran.out


def test_with_a_configuration_it_says_so_and_leaves_it(engine: Path) -> None:
    text = '[correctness]\nrequests = "own.jsonl"\n'
    (engine / "ci-doctor.toml").write_text(text)
    ran: Ran = doctor("init", "--yes", cwd=engine)
    assert ran.code == 0, ran
    assert "ci-doctor.toml exists and is not changed" in ran.out
    assert (engine / "ci-doctor.toml").read_text() == text
    assert not (engine / "own.jsonl").exists()

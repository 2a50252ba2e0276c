# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor lint` as it is typed: what it prints where, its exit codes, and what it leaves behind."""

import json
import os
from pathlib import Path

import pytest

from tests.support.cli import Ran, doctor, inside
from tests.support.git_repository import git, make_repository

pytestmark = pytest.mark.integration
WRONG = "import sys\n\ntry:\n    compare()\nexcept Exception as error:\n    print(error)\n\n    sys.exit(0)\n"
RULE = "gate/success-on-error"
FILE = "ci/gate.py"


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """A repository with one error."""
    return make_repository(tmp_path, {FILE: WRONG, "notes.md": "x\n"})


def findings(ran: Ran) -> list[tuple[str, str, int]]:
    """Rule, file and line of each finding."""
    report = json.loads(ran.out)
    return [
        (each["rule"], each["evidence"][0]["file"], each["evidence"][0]["line"])
        for each in report["findings"]
    ]


def test_a_program_that_a_pipeline_starts_is_a_gate_wherever_it_lies(tmp_path: Path) -> None:
    step = (
        "steps:\n- label: compare\n  timeout_in_minutes: 5\n  command: python3 tools/compare.py\n"
    )
    files = {".buildkite/pipeline.yml": step, "tools/compare.py": WRONG, "tools/other.py": WRONG}
    make_repository(tmp_path, files)

    ran = inside("lint", "--json", cwd=tmp_path)

    assert findings(ran) == [(RULE, "tools/compare.py", 8)]


def test_the_same_findings_are_sarif_junit_and_annotations(wrong: Path) -> None:
    start = f"::error title={RULE},file={FILE},line=8"
    asked = doctor(
        *("lint", "--format", "github", "--report-dir", "out", "--junit", "requests"), cwd=wrong
    )
    assert asked.out.startswith(start)
    log = json.loads((wrong / "out" / "report.sarif").read_text())
    assert log["runs"][0]["results"][0]["ruleId"] == RULE
    assert FILE in (wrong / "out" / "junit.xml").read_text()

    alone = doctor("lint", "--sarif", cwd=wrong)
    assert (alone.code, json.loads(alone.out)["version"]) == (1, "2.1.0")
    in_a_job = doctor("lint", cwd=wrong, env={"GITHUB_ACTIONS": "true"})
    assert start in in_a_job.err + in_a_job.out


def test_a_baseline_takes_the_present_away_and_reports_what_is_new_or_gone(wrong: Path) -> None:
    written = inside("lint", "--write-baseline", "lint.json", cwd=wrong)
    (wrong / "ci-doctor.toml").write_text('[lint]\nbaseline = "lint.json"\n')
    (wrong / "ci" / "more.py").write_text(WRONG)
    ran = inside("lint", "--json", cwd=wrong / "ci")
    assert written.code == 0
    assert findings(ran) == [(RULE, "ci/more.py", 8)]
    assert json.loads(ran.out)["facts"]["baseline"]["known"] == 1

    (wrong / "ci" / "more.py").unlink()
    (wrong / FILE).write_text("pass\n")
    stale = inside("lint", "--baseline", "lint.json", cwd=wrong)
    assert (stale.code, "lint/stale-baseline" in stale.out) == (0, True)
    assert "ci-doctor lint --write-baseline lint.json" in stale.out


def test_since_reports_what_a_branch_has_changed(wrong: Path) -> None:
    git(wrong, "switch", "--quiet", "-c", "work")
    unchanged = inside("lint", "--since", "main", cwd=wrong)
    (wrong / "ci" / "new.py").write_text(WRONG)
    changed = inside("lint", "--since", "main", "--json", cwd=wrong)

    assert (unchanged.code, changed.code) == (0, 1)
    assert "no file that lint reads has changed" in unchanged.out
    assert findings(changed) == [(RULE, "ci/new.py", 8)]


def test_the_settings_count_and_a_mistyped_rule_is_a_usage_error(wrong: Path) -> None:
    (wrong / "ci-doctor.toml").write_text(
        f'[lint]\nseverity = {{ "{RULE}" = "warning" }}\n'
        '[[lint.paths]]\nmatch = ["ci/**"]\nignore = []\n'
    )
    weaker = inside("lint", cwd=wrong)
    (wrong / "ci-doctor.toml").write_text(f'[lint]\nignore = ["{RULE[:-1]}"]\n')
    mistyped = inside("lint", cwd=wrong)

    assert weaker.code == 0
    assert mistyped.code == 2
    assert "ci-doctor.toml:2: [lint]" in mistyped.err
    assert f"did you mean `{RULE}`?" in mistyped.err


@pytest.mark.parametrize(
    "words",
    [
        ("--dry-run",),
        ("--fix", "--write-baseline", "x"),
        ("--since", "HEAD", "--write-baseline", "x"),
        ("--sarif", "--json"),
        ("--sarif", "--format", "github"),
        ("--since", "nothing"),
        ("--baseline", "missing.json"),
    ],
)
@pytest.mark.gate(2)
def test_what_does_not_fit_together_is_a_usage_error(words: tuple[str, ...], wrong: Path) -> None:
    assert inside("lint", *words, cwd=wrong).code == 2


@pytest.mark.parametrize("options", [(), ("--json",), ("--sarif",), ("--format", "github")])
@pytest.mark.gate(2)
def test_no_part_of_a_secret_in_a_reported_line_is_printed(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    token = "ghp_" + "A1b2C3d4E5f6" * 3
    (tmp_path / "whole.sh").write_text(f"pkill -f vllm; echo {token} hunter2hunter2\n")
    # A line is cut for the report at 200 characters: here inside of the token, and of the value.
    (tmp_path / "token.sh").write_text(f"pkill -f vllm; echo {'z' * 160} {token}\n")
    (tmp_path / "value.sh").write_text(f"pkill -f vllm; echo {'z' * 170} hunter2hunter2\n")

    ran = inside("lint", *options, cwd=tmp_path, env={"MY_TOKEN": "hunter2hunter2"})

    assert "whole.sh" in ran.out
    assert "value.sh" in ran.out
    for part in ("ghp_", "hunter2"):
        assert part not in ran.out + ran.err


def test_the_diff_of_a_repair_does_not_act_on_the_terminal(tmp_path: Path) -> None:
    script = b"#!/bin/bash\n# \x1b[31mred\nuntil curl -s -m 5 localhost/health; do sleep 1; done\n"
    (tmp_path / "a.sh").write_bytes(script)

    shown = inside("lint", "--fix", cwd=tmp_path)

    assert "+until curl -f -s -m 5 localhost/health; do sleep 1; done" in shown.err
    assert "\x1b" not in shown.err
    assert b"\x1b[31mred\nuntil curl -f -s" in (tmp_path / "a.sh").read_bytes()


HOSTILE = {
    "half.sh": b"#!/bin/bash\nif true; then\n  f() {\n  cat <<EOF\n  never ends\n",
    "line.sh": b"echo " + b"a" * 1_000_000 + b"\n",
    "words.sh": b"make " + b"a" * 1_000_000 + b" &\nsleep 30\n",
    "curls.sh": b"make '" + b"curl " * 200_000 + b"' &\nsleep 30\n",
    "names.sh": b"A_B" * 300_000 + b"\n",
    "ci/choices.py": b"x = '" + b"choices" * 100_000 + b"'\n",
    "lines.sh": b"echo hello # x\n" * 100_000,
    "nested.sh": b"$(" * 5_000,
    "latin.sh": b"echo \xe9\r\n",
    "nul.sh": b"echo \0\n",
    "fish.sh": b"#!/usr/bin/env fish\nif true\n  echo $status\nend\n",
    ".buildkite/steps.yml": b"steps:\n" + b"- label: a\n  command: make\n" * 2_000,
    ".buildkite/odd.yml": b"steps: &s\n- &a {command: make, command: !x test, <<: {key: 1}}\n- *a\nx: *s\n",
    ".buildkite/bomb.yml": b"a: &a [x, x]\n"
    + b"".join(b"%c: &%c [*%c, *%c]\n" % (b + 1, b + 1, b, b) for b in range(97, 120)),
    ".buildkite/half.yml": b"steps:\n- command: [make\n\t- tab",
    "ci/deep.py": b"x = " + b"(" * 5_000 + b")" * 5_000 + b"\n",
    "ci/half.py": b"def f(:\n",
}


@pytest.mark.nightly
def test_no_content_and_no_kind_of_file_holds_a_run_up_or_ends_it(tmp_path: Path) -> None:
    for name, content in HOSTILE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "out.sh").symlink_to("/etc/passwd")
    (tmp_path / "folder.sh").mkdir()
    os.mkfifo(tmp_path / "pipe.sh")

    ran = inside("lint", "--json", cwd=tmp_path)

    facts = json.loads(ran.out)["facts"]
    unreadable = {each["file"] for each in facts["unreadable"]}
    # A file with a NUL is in no role; all others were looked at, as far as they could be read.
    assert ran.code in (0, 1)
    assert sum(facts["lint_files"].values()) == len(HOSTILE) - 1
    assert {"nul.sh", "ci/half.py"} <= unreadable
    assert (facts["left_out"]["links"], facts["left_out"]["not regular"]) == (1, 1)
    assert "root:" not in ran.out


def test_a_fixture_that_is_wrong_on_purpose_is_no_error(tmp_path: Path) -> None:
    broken = tmp_path / "tests" / "fixtures" / "broken.sh"
    broken.parent.mkdir(parents=True)
    broken.write_text("if true; then\n")

    ran = inside("lint", "--json", cwd=tmp_path)

    assert ran.code == 0
    assert [each["severity"] for each in json.loads(ran.out)["findings"]] == ["warning"]


@pytest.mark.parametrize(
    ("name", "content"),
    [("x/pipeline.yml", "label: [a\n"), ("x/a.py", "import (\n"), ("x/a.toml", "a = [\n")],
)
def test_a_file_that_was_named_and_cannot_be_parsed_is_void(
    tmp_path: Path, name: str, content: str
) -> None:
    make_repository(tmp_path, {name: content, "x/good.sh": "set -e\ntrue\n"})

    # Among others of the repository it decides nothing.
    assert inside("lint", cwd=tmp_path).code == 0
    ran = inside("lint", "x/good.sh", name, cwd=tmp_path)

    assert ran.code == 86, ran
    assert f"{name} was named, and could not be read" in " ".join(ran.out.split())


def test_what_is_no_yaml_is_said_once(tmp_path: Path) -> None:
    make_repository(tmp_path, {".buildkite/pipeline.yml": "label: [a\n"})

    ran = inside("lint", "--json", cwd=tmp_path)

    assert findings(ran) == [("pipeline/unparsable-yaml", ".buildkite/pipeline.yml", 2)]

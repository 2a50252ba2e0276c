# SPDX-License-Identifier: Apache-2.0
"""Files of CI: who reads them, their keys and scripts, what is said of them, and that nothing in them stops the reader."""

import json
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.lint.pipelines.check import RULES, check_pipeline
from ci_doctor.lint.pipelines.pipeline_file import (
    BLOCK_KEYS,
    COMMAND_KEYS,
    GROUP_KEYS,
    INPUT_KEYS,
    PIPELINE_KEYS,
    TRIGGER_KEYS,
    WAIT_KEYS,
    FileKind,
    PipelineContext,
    buildkite,
    is_pipeline,
    job_steps,
    kind_of,
    nearest_key,
    whole_workflow,
    workflow,
)
from ci_doctor.lint.source_files import FileReading, Shell, ShellSource
from ci_doctor.model.outcome import Severity
from ci_doctor.syntax.yaml import compose
from tests.support.cli import python_program

FILE = ".buildkite/pipeline.yml"
NOTHING = PipelineContext()


def check(text: str, context: PipelineContext = NOTHING, file: str = FILE) -> FileReading:
    return check_pipeline(file, text, context)


def ids(reading: FileReading) -> list[str]:
    return [violation.rule.id for violation in reading.violations]


def test_a_violation_has_the_line_and_what_stands_there() -> None:
    reading = check("steps:\n  - label: a\n    command: make\n    timeout_in_minute: 5\n")

    (violation,) = reading.violations
    assert (violation.place.file, violation.place.line) == (FILE, 4)
    assert violation.excerpt == "timeout_in_minute: 5"
    assert violation.remedy == "Write `timeout_in_minutes`."


def test_violations_come_in_the_order_of_the_lines() -> None:
    steps = "  - {command: make, needs: a}\n  - {command: make, artifact_path: x}\n"

    reading = check("steps:\n" + steps)

    assert [violation.place.line for violation in reading.violations] == [2, 3]


def test_a_broken_file_is_an_error_and_unread_from_there() -> None:
    reading = check("steps:\n  - command: make\n\t- x\n")

    assert ids(reading) == ["pipeline/unparsable-yaml"]
    assert [each.line for each in reading.unreadable] == [3]


def test_the_source_of_a_template_is_unread_and_no_error() -> None:
    reading = check("steps:\n{% for s in steps %}\n  - command: {{ s }}\n{% endfor %}\n")

    assert reading.violations == ()
    assert [each.line for each in reading.unreadable] == [2]
    assert "template" in reading.unreadable[0].reason


def test_a_limit_of_ours_is_said_and_no_error_of_the_file() -> None:
    reading = check("steps: " + 1000 * "[")

    assert reading.violations == ()
    assert "nested deeper" in reading.unreadable[0].reason


def test_an_action_of_the_repository_itself_needs_no_version() -> None:
    there = PipelineContext(read=lambda _: "")
    job = "on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n    - uses: o/r/.github/actions/a@main\n"

    assert ids(check(job, file=".github/workflows/a.yml")) == ["pipeline/unpinned-plugin"]
    assert ids(check(job, there, file=".github/workflows/a.yml")) == []


def test_a_step_of_another_upload_may_be_depended_on() -> None:
    text = "steps:\n  - {command: make, depends_on: image}\n"
    later = text + "  - command: sh more.sh | buildkite-agent pipeline upload\n"

    assert [each.severity for each in check(text).violations] == [None]
    assert [each.severity for each in check(later).violations] == [Severity.WARNING]
    assert not check(text, file=".buildkite/tests.yml").violations
    assert not check(text + "  - {command: test, key: 'x-{{matrix}}'}\n").violations


@pytest.mark.parametrize(
    "text",
    [
        "- command: make\n  soft-fail: true\n- wait\n",
        "steps:\n  - group: g\n    steps:\n      - {command: make, artifact_path: x}\n",
        "x: &x {command: make, needs: a}\nsteps:\n  - *x\n  - {<<: *x}\n",
    ],
    ids=["without a mapping around them", "of a group", "behind an alias"],
)
def test_steps_are_checked_wherever_they_stand_and_once(text: str) -> None:
    assert ids(check(text)) == ["pipeline/unknown-key"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("steps: [{lable: a, comand: x}]", ["unknown-key", "unknown-key"]),
        ("steps: [{comand: x}]", ["unknown-key"]),
        ("steps: [{lable: a}]", ["unknown-key", "unknown-step"]),
        ("steps: [{wiat: ~}]", ["unknown-key"]),
        ("steps: [{blok: x, fields: []}]", ["unknown-key"]),
        (
            "steps: [{gruop: a, steps: [{command: make, lable: b}]}]",
            ["unknown-key", "unknown-key"],
        ),
        ("stesp: [{command: make}, wait]", ["unknown-key"]),
        ("steps: [{}]", ["unknown-step"]),
        ("steps: [wiat]", ["unknown-step"]),
        ("steps: [{group: a, steps: [{}]}]", ["unknown-step"]),
        ("steps: [[{command: make}]]", ["unknown-step"]),
    ],
)
def test_a_step_without_a_valid_key_is_never_passed_over(text: str, expected: list[str]) -> None:
    assert ids(check(text)) == [f"pipeline/{rule}" for rule in expected]


@pytest.mark.parametrize(
    "text",
    [
        "steps: [{lable: a, comand: x}]",
        "stesp: [{command: make}]",
        "steps: [{}]",
        "steps: [{name: gcr.io/builder, args: [a]}]",
        "steps: [{checkout: self}, {script: make}]",
    ],
)
def test_steps_of_others_get_no_findings_for_being_none_of_buildkite(text: str) -> None:
    assert ids(check(text, file="ci/build.yml")) == []


@pytest.mark.nightly
def test_twenty_thousand_steps_are_read() -> None:
    reading = check(
        "steps:\n" + 20_000 * "- {command: make, label: a}\n" + "- {wait: , needs: a}\n"
    )

    assert ids(reading) == ["pipeline/unknown-key"]
    assert len(reading.scripts) == 20_000


PIECES = st.sampled_from(
    [
        "steps:\n", "jobs:\n", "  a:\n", "  - ", "command: ", "run: ", "if: ", "plugins: ", "retry: ",
        "uses: a/b@", "image: ", "key: ", "- ", ": ", "|\n", ">-\n", "&x ", "*x", "<<: *x\n", "!t ",
        "{", "}", "[", "]", "'", '"', "${{", "}}", "{{", "{%", "\t", "\r\n", "\n", " ", "for i in 1 2; do ",
        "timeout 9 x", "done", "$$", "=~ /", "artifact_paths: ", "XXX", "3.10", "\x00", "\ud800",
    ]
)  # fmt: skip


@given(
    st.lists(PIECES, max_size=25), st.sampled_from([FILE, ".github/workflows/a.yml", "action.yml"])
)
def test_nothing_in_a_file_raises(pieces: list[str], file: str) -> None:
    text = "".join(pieces)

    reading = check_pipeline(file, text, NOTHING)

    last = text.count("\n") + text.count("\r") + 1
    for violation in reading.violations:
        assert 1 <= violation.place.line <= violation.place.end_line <= last
    for script in reading.scripts:
        assert script.lines is not None
        assert len(script.lines) == script.text.count("\n") + 1


def test_an_action_of_many_steps_is_one_violation_with_all_its_places() -> None:
    job = "on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n" + "      - uses: org/a@main\n" * 3

    (violation,) = check(job, file=".github/workflows/a.yml").violations

    assert violation.summary.endswith("(at 3 places of this file)")
    assert [each.line for each in violation.related] == [7, 8]


# Which YAML files belong to CI, and who reads them.

STEPS = "steps:\n  - command: make\n"


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        (".github/workflows/test.yml", "not yaml: [", True),
        (".github/configs/matrix.yaml", "a: b\n", True),
        (".github/dependabot.yml", "version: 2\n", False),
        (".github/ISSUE_TEMPLATE/bug.yml", "name: x\n", False),
        ("tools/setup/action.yml", "runs:\n  using: composite\n", True),
        ("docs/action.yml", "a: b\n", False),
        (".buildkite/test_areas/kernels.yaml", "a: b\n", True),
        ("ci/other.YML", "a: b\n", True),
        (".gitlab-ci.yml", "a: b\n", True),
        ("release/pipeline.yml", STEPS, True),
        ("config.yaml", "steps: 20\n", False),
        (".buildkite/run.sh", STEPS, False),
    ],
)
def test_a_file_is_known_by_its_path_or_its_lines(file: str, text: str, *, expected: bool) -> None:
    assert is_pipeline(file, text) is expected


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        (".github/workflows/test.yml", "a: b\n", FileKind.WORKFLOW),
        ("x.yml", "on: push\njobs: {a: {runs-on: x}}\n", FileKind.WORKFLOW),
        ("x/action.yml", "runs: {using: composite, steps: []}\n", FileKind.ACTION),
        (".buildkite/p.yml", STEPS, FileKind.BUILDKITE),
        (".buildkite/p.yml", "- command: make\n- wait\n", FileKind.BUILDKITE),
        (".buildkite/p.yml", "steps:\n  - {commands: [a], num_gpus: 2}\n", FileKind.OWN_STEPS),
        (".buildkite/p.yml", "steps:\n  - {name: a, script: x, owner: b}\n", FileKind.BUILDKITE),
        (".buildkite/p.yml", "steps:\n  - {task: a, does: x, owner: b}\n", FileKind.OWN_STEPS),
        (".buildkite/models.yml", "a: {b: c}\n", FileKind.DATA),
        (".buildkite/empty.yml", "", FileKind.DATA),
    ],
)
def test_who_reads_a_file_follows_from_its_path_and_its_keys(
    file: str, text: str, expected: FileKind
) -> None:
    assert kind_of(file, compose(text).documents) is expected


# The programs of a pipeline's steps: their text, their lines, and who runs them.

Files = tuple[object, ...]


def scripts(files: tuple[object, ...]) -> tuple[ShellSource, ...]:
    (example,) = files
    file, text = getattr(example, "file", ""), getattr(example, "text", "")
    return check_pipeline(file, text, PipelineContext()).scripts


def only(files: tuple[object, ...]) -> ShellSource:
    (source,) = scripts(files)
    return source


def test_a_list_of_commands_is_one_program_that_ends_at_the_first_failure() -> None:
    source = only(
        buildkite(
            "steps:\n  - label: t\n    commands:\n      - cd x\n      - |\n        a\n        b\n"
        )
    )

    assert source.text == "cd x\na\nb"
    assert source.lines == (4, 6, 7)
    assert (source.shell, source.errexit, source.pipefail) == (Shell.BASH, True, False)
    assert source.embedded == "the command of step 't'"


def test_a_dollar_sign_that_the_upload_unescapes_is_read_as_the_shell_sees_it() -> None:
    source = only(buildkite("steps:\n  - command: echo $$A \\$B ${C}\n"))

    assert (source.text, source.offset) == ("echo $A $B ${C}", None)


@pytest.mark.parametrize("written", ["make all", "'make all'", '"make all"'])
def test_a_command_that_stands_there_as_it_is_can_be_edited(written: str) -> None:
    files = buildkite(f"steps:\n  - command: {written}\n")
    source = only(files)

    assert source.offset is not None
    assert files[0].text[source.offset :].startswith("make all")


def test_an_expression_is_a_parameter_of_the_same_length() -> None:
    files = job_steps("- run: make ${{ inputs.target }} all\n")
    source = only(files)

    assert source.offset is not None
    assert len(source.text) == len("make ${{ inputs.target }} all")
    assert source.text.startswith("make ${EE")
    assert source.text.endswith("E} all")


def test_a_program_of_a_folded_block_has_the_lines_of_the_file() -> None:
    source = only(job_steps("- run: >-\n    pytest\n    -v\n\n    echo done\n"))

    assert (source.text, source.lines) == ("pytest -v\necho done", (8, 11))


@pytest.mark.parametrize(
    ("shell", "expected"),
    [
        ("", (Shell.BASH, True, False)),
        ("bash", (Shell.BASH, True, True)),
        ("sh", (Shell.SH, True, False)),
        ("bash -l {0}", (Shell.BASH, False, False)),
        ("bash -leo pipefail {0}", (Shell.BASH, True, True)),
        ("/usr/bin/bash --noprofile -e {0}", (Shell.BASH, True, False)),
    ],
)
def test_the_shell_of_a_step_decides_the_options(
    shell: str, expected: tuple[Shell, bool, bool]
) -> None:
    line = f"\n  shell: {shell}" if shell else ""

    source = only(job_steps(f"- run: make{line}\n"))

    assert (source.shell, source.errexit, source.pipefail) == expected


@pytest.mark.parametrize("shell", ["python", "pwsh", "cmd"])
def test_a_program_of_another_language_is_no_shell_script(shell: str) -> None:
    assert scripts(job_steps(f"- run: make\n  shell: {shell}\n")) == ()


def test_without_a_shell_the_defaults_of_the_job_and_the_workflow_count() -> None:
    files = whole_workflow(
        """
        on: push
        defaults: {run: {shell: bash}}
        jobs:
          a: {runs-on: x, steps: [{run: one}]}
          b: {runs-on: x, defaults: {run: {shell: sh}}, steps: [{run: two}]}
        """
    )

    assert [(each.shell, each.pipefail) for each in scripts(files)] == [
        (Shell.BASH, True),
        (Shell.SH, False),
    ]


def test_a_machine_with_windows_runs_no_shell_of_ours() -> None:
    assert scripts(workflow("runs-on: windows-2025\nsteps:\n- run: dir\n")) == ()


def test_the_docker_plugin_runs_sh_unless_it_is_told_otherwise() -> None:
    step = "steps:\n  - command: make\n    plugins: [{docker#v5.13.0: {image: 'a/b:1.0'%s}}]\n"

    assert only(buildkite(step % "")).shell is Shell.SH
    assert only(buildkite(step % ", shell: [/bin/bash, -c]")).shell is Shell.BASH


def test_a_mirror_of_a_step_has_its_own_program_only_if_it_has_own_commands() -> None:
    files = buildkite(
        """
        steps:
          - label: a
            num_gpus: 1
            commands: [one]
            mirror: {amd: {device: mi300}, other: {commands: [two]}}
        """
    )

    assert [each.text for each in scripts(files)] == ["one", "two"]


def test_commands_behind_an_alias_are_one_program() -> None:
    files = buildkite("x: &x [a, b]\nsteps:\n  - commands: *x\n  - commands: *x\n")

    assert [each.text for each in scripts(files)] == ["a\nb"]


def test_what_only_powershell_has_is_no_shell_program_even_if_a_matrix_names_the_runner() -> None:
    assert scripts(job_steps('- run: |\n    $ErrorActionPreference = "Stop"\n    make\n')) == ()


# The table of keys beside the published schemas, and which key was meant.


def schema(name: str) -> dict[str, dict[str, dict[str, object]]]:
    folder = files("check_jsonschema") / "builtin_schemas" / "vendor"
    loaded: dict[str, dict[str, dict[str, object]]] = json.loads((folder / name).read_text())
    return loaded


@pytest.mark.parametrize(
    ("definition", "keys"),
    [
        ("commandStep", COMMAND_KEYS),
        ("waitStep", WAIT_KEYS),
        ("blockStep", BLOCK_KEYS),
        ("inputStep", INPUT_KEYS),
        ("triggerStep", TRIGGER_KEYS),
        ("groupStep", GROUP_KEYS),
    ],
)
def test_every_key_of_the_published_schema_is_known(definition: str, keys: frozenset[str]) -> None:
    published = schema("buildkite.json")["definitions"][definition]["properties"]

    assert isinstance(published, dict)
    assert set(published) <= keys


def test_every_key_of_a_pipeline_is_known() -> None:
    assert set(schema("buildkite.json")["properties"]) <= PIPELINE_KEYS


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("timeout_in_minute", "timeout_in_minutes"),
        ("timeoutInMinutes", "timeout_in_minutes"),
        ("artifact-paths", "artifact_paths"),
        ("comand", "command"),
        ("lable", "label"),
        ("owner", None),
        ("x", None),
    ],
)
def test_the_nearest_key_is_the_one_that_was_meant(written: str, meant: str | None) -> None:
    assert nearest_key(written, COMMAND_KEYS) == meant


def test_every_example_of_a_pipeline_is_a_file_that_the_command_would_check() -> None:
    examples = [each for rule in RULES for files in (*rule.bad, *rule.good) for each in files]

    assert [each for each in examples if not is_pipeline(each.file, each.text)] == []


def test_the_rules_about_pipelines_load_without_a_yaml_parser() -> None:
    program = (
        "import sys, ci_doctor.lint.pipelines.check as rules;"
        "print(len(rules.RULES), 'yaml' in sys.modules, 'tree_sitter' in sys.modules)"
    )

    ran = python_program(program)

    assert ran.stdout.split() == [str(len(RULES)), "False", "False"]


def test_a_folder_of_the_repository_without_its_dot_is_an_error_with_the_mend() -> None:
    files = {"buildkite_plugins/ci-doctor/plugin.yml": "", "ci/judge.sh": "ci-doctor correctness\n"}
    step = "steps:\n  - command: make\n    plugins: [{buildkite_plugins/ci-doctor: {}}]\n"
    (violation,) = check(step, PipelineContext(read=files.get)).violations
    assert (violation.severity, violation.remedy) == (
        Severity.ERROR,
        "Write `./buildkite_plugins/ci-doctor`.",
    )
    assert check(step.replace("{b", "{./b"), PipelineContext(read=files.get)).violations == ()
    script = "steps:\n  - command: bash ./ci/judge.sh\n    retry: {automatic: true}\n"
    assert ids(check(script, PipelineContext(read=files.get))) == ["pipeline/retried-verdict"]


def test_a_misspelt_option_of_the_plugin_has_the_one_that_was_meant() -> None:
    step = (
        "steps:\n  - command: make\n    plugins:\n      - ./ci-doctor:\n          exit-code: true\n"
    )
    (violation,) = check(step).violations
    assert violation.place.line == 5
    assert "`exit-codes`" in str(violation.remedy) + violation.summary

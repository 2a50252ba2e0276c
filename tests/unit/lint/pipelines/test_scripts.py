# SPDX-License-Identifier: Apache-2.0
"""The programs of a pipeline's steps: their text, their lines, and who runs them."""

import pytest

from ci_doctor.lint.pipelines.check import PipelineContext, check_pipeline
from ci_doctor.lint.pipelines.examples import buildkite, job_steps, whole_workflow, workflow
from ci_doctor.lint.shell.shell_source import Shell, ShellSource

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

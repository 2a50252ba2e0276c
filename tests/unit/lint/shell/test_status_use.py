# SPDX-License-Identifier: Apache-2.0
"""What happens to the status of a command named `target`."""

import pytest

from ci_doctor.lint.shell.read_program import read_program
from ci_doctor.lint.shell.shell_source import ShellSource
from ci_doctor.lint.shell.status_use import StatusUse, use_of


def use_of_target(text: str, *, errexit: bool = False, pipefail: bool = False) -> StatusUse:
    source = ShellSource(file="run.sh", text=text, errexit=errexit, pipefail=pipefail)
    program = read_program(source, lambda _: None)
    (target,) = (node for node in program.commands if program.words(node).name == "target")
    return use_of(program, target)


@pytest.mark.parametrize(
    "text",
    [
        "target || exit 1\na",
        "target && a\nb",
        "if target; then a; fi\nb",
        "if ! target; then a; fi\nb",
        "while ! target; do a; done\nb",
        "until target > /dev/null; do a; done\nb",
        "target\nrc=$?\na",
        "target\nif [ $? -ne 0 ]; then exit 1; fi\na",
        "x=$(target)\nrc=$?\na",
        "target | tee log\nrc=${PIPESTATUS[0]}\na",
        "set -o pipefail\ntarget | tee log || exit 1\na",
        "target",
        "( a; target ) || exit 1\nb",
        "if a; then\n  target\nfi",
        "target\nexit",
    ],
)
def test_a_status_that_something_reads(text: str) -> None:
    assert use_of_target(text) is StatusUse.READ


@pytest.mark.parametrize(
    "text",
    [
        "target\na",
        "target &\na",
        "set -e\nset +e\ntarget\na",
        "( set -e )\ntarget\na",
        "a && target\nb",
        "a || target\nb",
        "target; a",
        "{ target; a; } || exit 1\nb",
        "if target; a; then b; fi\nc",
        "echo $(target)\na",
        "set -e\necho $(target; a)\nb",
        "set -e\nx=$(target; a)\nb",
        "set -e\n! target\na",
        "set -e\nif { target; a; }; then b; fi\nc",
        "f() {\n  target\n  a\n}\nf\nb",
        "set -e\nf() {\n  target\n  a\n}\nif f; then b; fi\nc",
        "set -e\nf() {\n  target\n  a\n}\nf || true\nc",
        "for i in 1 2; do\n  target\n  a\ndone\nb",
        "case $x in\n  a) target;;\nesac\nb",
    ],
)
def test_a_status_that_nobody_reads(text: str) -> None:
    assert use_of_target(text) is StatusUse.IGNORED


@pytest.mark.parametrize(
    "text",
    [
        "set -e\ntarget\na",
        "#!/bin/bash -ex\ntarget\na",
        "set -euo pipefail\ntarget\na",
        "set -eou pipefail\ntarget | tee log\na",
        "set -o errexit\ntarget\na",
        "set -e\na && target\nb",
        "set -e\n( target; a )\nb",
        "set -e\nx=$(target)\na",
        "set -e\nshopt -s inherit_errexit\nx=$(target; a)\nb",
        "f() {\n  set -e\n  target\n  a\n}\nf\nb",
        "set -e\nf() {\n  target\n  a\n}\nf\nb",
        "f() {\n  target\n  a\n}\nset -e\nf\nb",
        "if a; then\n  set -e\nfi\ntarget\nb",
    ],
)
def test_a_failure_that_ends_the_script(text: str) -> None:
    assert use_of_target(text) is StatusUse.ENDS


@pytest.mark.parametrize(
    "text",
    [
        "f() {\n  target\n  a\n}",
        "f() {\n  target\n  a\n}\nset -e\nf\nset +e\nf\nb",
        "trap 'exit 1' ERR\ntarget\na",
    ],
)
def test_what_depends_on_others_is_unknown(text: str) -> None:
    assert use_of_target(text) is StatusUse.UNKNOWN


@pytest.mark.parametrize(
    "text",
    [
        "f() {\n  target\n}\nf\na",
        "f() {\n  a\n  if b; then target; fi\n}\nf\na",
        "f() ( target )\nf\na",
    ],
)
def test_the_last_status_of_a_function_is_returned(text: str) -> None:
    assert use_of_target(text) is StatusUse.RETURNED


def test_a_pipe_loses_a_status() -> None:
    assert use_of_target("set -e\ntarget | tee log\na") is StatusUse.LOST_IN_PIPE
    assert use_of_target("target | tee log\na", pipefail=True, errexit=True) is StatusUse.ENDS


@pytest.mark.parametrize("word", ["export", "local", "readonly", "declare"])
def test_a_declaration_loses_a_status(word: str) -> None:
    assert use_of_target(f"set -e\n{word} x=$(target)\na") is StatusUse.LOST_IN_DECLARATION


def test_the_caller_of_a_program_may_have_set_errexit() -> None:
    assert use_of_target("target\na", errexit=True) is StatusUse.ENDS


def test_a_pipe_belongs_to_the_last_command_of_a_list() -> None:
    assert use_of_target("target > x && a 2>&1 | tee y\nb") is StatusUse.READ
    assert use_of_target("a > x && target 2>&1 | tee y\nb") is StatusUse.LOST_IN_PIPE


def test_a_here_document_does_not_hide_what_follows_it() -> None:
    assert use_of_target("target <<EOF || exit 1\nx\nEOF\na") is StatusUse.READ
    assert use_of_target("target <<EOF | tee log\nx\nEOF\na") is StatusUse.LOST_IN_PIPE

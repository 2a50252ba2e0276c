# SPDX-License-Identifier: Apache-2.0
"""What GitHub shows of lint beside the changed lines."""

from pathlib import Path

from ci_doctor.render import lint_annotations
from ci_doctor.render.ci_frame import frame
from ci_doctor.render.ci_log import Dialect
from tests.support.ci_log_readers import github_commands
from tests.support.git_repository import make_repository
from tests.support.lint_runs import lint_report


def test_each_finding_is_an_annotation_with_its_level_the_worst_first(tmp_path: Path) -> None:
    make_repository(tmp_path, {"a.yml": "steps: late\n", "b,1.sh": "echo evil ::100%\n"})

    lines = lint_annotations.render(lint_report(tmp_path)).splitlines()

    assert lines == [
        "::error title=shell/bad-word,file=b%2C1.sh,line=1,endLine=1::an evil word%0Atry: good",
        "::warning title=pipeline/late-step,file=a.yml,line=1,endLine=1::a late step",
        "1 error, 1 warning in 2 files; read 1 script, 1 pipeline",
    ]


def test_the_log_of_a_job_has_as_many_of_each_level_as_github_shows(tmp_path: Path) -> None:
    make_repository(tmp_path, {"a.yml": "steps:\n" + "- late\n" * 30, "b.sh": "evil\n" * 30})

    around = frame(lint_report(tmp_path), Dialect.GITHUB, key="1", token="t", epoch_s=1.0)

    levels = [command.name for command in github_commands(around.notes)]
    assert (levels.count("error"), levels.count("warning")) == (10, 10)


def test_a_tree_without_files_to_read_is_an_error_of_its_own(tmp_path: Path) -> None:
    make_repository(tmp_path, {"notes.md": ""})

    first, _ = lint_annotations.render(lint_report(tmp_path)).splitlines()

    assert first.startswith("::error title=ci-doctor lint::nothing was read")

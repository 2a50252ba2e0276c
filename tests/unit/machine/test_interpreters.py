# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.machine.interpreters import TargetInterpreter, choose_targets
from tests.support.packages import make_venv, write_script


def pythons(targets: tuple[TargetInterpreter, ...]) -> list[Path]:
    return [target.python for target in targets]


def test_the_named_ones_win_in_their_order_and_once_each(tmp_path: Path) -> None:
    one, two = (
        write_script(tmp_path / "1" / "bin" / "python"),
        write_script(tmp_path / "2" / "bin" / "python"),
    )
    chosen = choose_targets(
        [str(one), str(two), str(one)], [str(tmp_path / "2")], [], {"VIRTUAL_ENV": "/gone"}
    )
    assert pythons(chosen) == [one, two]
    assert [target.why for target in chosen] == [f"--python {one}", f"--python {two}"]
    assert all(target.named for target in chosen)


def test_a_bare_name_is_looked_up_on_the_jobs_path(tmp_path: Path) -> None:
    found = write_script(tmp_path / "python9")
    assert pythons(choose_targets(["python9"], [], [], {"PATH": str(tmp_path)})) == [found]


def test_a_directory_given_as_python_is_its_environment(tmp_path: Path) -> None:
    found = write_script(tmp_path / "v" / "bin" / "python")
    assert pythons(choose_targets([str(tmp_path / "v")], [], [], {})) == [found]


def test_the_active_environment_comes_before_the_projects_and_that_before_the_path(
    tmp_path: Path,
) -> None:
    active = write_script(tmp_path / "active" / "bin" / "python")
    own = write_script(tmp_path / "project" / ".venv" / "bin" / "python")
    path = write_script(tmp_path / "bin" / "python3")
    environ = {"PATH": str(tmp_path / "bin"), "VIRTUAL_ENV": str(tmp_path / "active")}
    projects = [tmp_path / "project"]
    assert pythons(choose_targets([], [], projects, environ)) == [active]
    del environ["VIRTUAL_ENV"]
    assert pythons(choose_targets([], [], projects, environ)) == [own]
    assert pythons(choose_targets([], [], [tmp_path], environ)) == [path]
    assert not choose_targets([], [], [tmp_path], environ)[0].named


@pytest.mark.parametrize(
    ("named", "venvs", "environ"),
    [
        (["no-such-python"], [], {}),
        ([], ["gone"], {}),
        ([], [], {"VIRTUAL_ENV": "gone"}),
        (["."], [], {}),
    ],
)
def test_one_that_is_not_there_is_an_error_with_a_hint(
    named: list[str],
    venvs: list[str],
    environ: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        choose_targets(named, venvs, [], environ)
    assert caught.value.hint


def test_our_own_environment_is_known_also_through_a_link(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(sys.prefix)
    other = write_script(tmp_path / "v" / "bin" / "python")
    own = [
        target.own
        for target in choose_targets([str(link / "bin" / "python3"), str(other)], [], [], {})
    ]
    assert own == [True, False]


def test_a_python_that_links_to_ours_is_another_environment(tmp_path: Path) -> None:
    (tmp_path / "v" / "bin").mkdir(parents=True)
    (tmp_path / "v" / "bin" / "python").symlink_to(sys.executable)
    (target,) = choose_targets([], [str(tmp_path / "v")], [], {})
    assert (target.python, target.own) == (tmp_path / "v" / "bin" / "python", False)


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A `.venv` whose Python leads nowhere."""
    venv = tmp_path / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to("/gone/python3")
    return venv


def test_an_active_environment_that_is_gone_is_chosen(tmp_path: Path) -> None:
    (target,) = choose_targets([], [], [tmp_path], {"VIRTUAL_ENV": "/gone/venv"}, broken=True)

    assert target.python == Path("/gone/venv/bin/python")
    assert target.why == "$VIRTUAL_ENV"


def test_broken_ones_are_chosen_beside_sound_ones(broken: Path, tmp_path: Path) -> None:
    sound = make_venv(tmp_path / "sound")

    chosen = choose_targets([str(sound)], [str(broken)], [tmp_path], {}, broken=True)

    assert [target.python for target in chosen] == [sound, broken / "bin" / "python"]
    assert all(target.named for target in chosen)


def test_a_link_that_leads_nowhere_can_be_named(broken: Path, tmp_path: Path) -> None:
    (target,) = choose_targets([str(broken / "bin" / "python")], [], [tmp_path], {}, broken=True)

    assert target.python == broken / "bin" / "python"

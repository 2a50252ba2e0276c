from pathlib import Path

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.machine.interpreters import job_targets
from tests.support.packages import make_venv


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A `.venv` whose Python leads nowhere."""
    venv = tmp_path / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to("/gone/python3")
    return venv


def test_the_projects_broken_environment_is_chosen_and_not_passed_over(
    broken: Path, tmp_path: Path
) -> None:
    (target,) = job_targets([], [], tmp_path, {"PATH": "/usr/bin:/bin"})

    assert target.python == broken / "bin" / "python"
    assert not target.named


def test_an_active_environment_that_is_gone_is_chosen(tmp_path: Path) -> None:
    (target,) = job_targets([], [], tmp_path, {"VIRTUAL_ENV": "/gone/venv"})

    assert target.python == Path("/gone/venv/bin/python")
    assert target.why == "$VIRTUAL_ENV"


def test_broken_ones_are_chosen_beside_sound_ones(broken: Path, tmp_path: Path) -> None:
    sound = make_venv(tmp_path / "sound")

    chosen = job_targets([str(sound)], [str(broken)], tmp_path, {})

    assert [target.python for target in chosen] == [sound, broken / "bin" / "python"]
    assert all(target.named for target in chosen)


def test_a_link_that_leads_nowhere_can_be_named(broken: Path, tmp_path: Path) -> None:
    (target,) = job_targets([str(broken / "bin" / "python")], [], tmp_path, {})

    assert target.python == broken / "bin" / "python"


def test_a_name_of_which_nothing_exists_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        job_targets([], [str(tmp_path / "never-made")], tmp_path, {})

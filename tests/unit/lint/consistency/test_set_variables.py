"""Which variables scripts, YAML and Dockerfiles set to a constant."""

import pytest

from ci_doctor.lint.consistency.repository import RepositoryFiles
from ci_doctor.lint.consistency.set_variables import set_variables


def variables(file: str, text: str) -> list[tuple[str, str, int]]:
    repository = RepositoryFiles({file: text})
    return [(each.name, each.value, each.place.line) for each in set_variables(repository)]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("run.sh", "true\nexport ENGINE_SIZE=16\n"),
        ("run.sh", "true\nENGINE_SIZE='16' ./serve\n"),
        ("run.sh", 'true\ndocker run -e ENGINE_SIZE=16 -e "B=2" image\n'),
        ("Dockerfile", "FROM a\nENV ENGINE_SIZE=16\n"),
        ("a.yml", "env:\n  ENGINE_SIZE: 16\r\n"),
        ("a.yml", "env:\n  - 'ENGINE_SIZE': \"16\"  # small\n"),
        ("a.yml", "steps:\n  - command: export ENGINE_SIZE=16\n"),
    ],
)
def test_a_constant_is_known_with_its_line(file: str, text: str) -> None:
    assert ("ENGINE_SIZE", "16", 2) in variables(file, text)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("run.sh", "# export ENGINE_SIZE=16\n"),
        ("run.sh", 'export ENGINE_SIZE="$1"\n'),
        ("run.sh", "export ENGINE_SIZE=$(nproc)\n"),
        ("run.sh", "serve --set:ENGINE_SIZE=16\n"),
        ("run.sh", "env | grep -E '^(PATH=|ENGINE_SIZE=|HOME=)'\n"),
        ("a.yml", "  # ENGINE_SIZE: 16\n"),
        ("a.yml", "  text: see ENGINE_SIZE: 16\n"),
        ("a.yml", "  ENGINE_SIZE: *size\n"),
        ("notes.md", "export ENGINE_SIZE=16\n"),
    ],
)
def test_comments_and_computed_values_are_none(file: str, text: str) -> None:
    assert variables(file, text) == []

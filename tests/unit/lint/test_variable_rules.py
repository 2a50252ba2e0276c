# SPDX-License-Identifier: Apache-2.0
"""What programs read and set, and where files contradict each other."""

import pytest

from ci_doctor.lint.variable_rules import RepositoryFiles, check_consistency, set_variables

READS = "import os\n" + "".join(
    f'{name} = os.environ.get("ENGINE_{name}", "1")\n' for name in ("SIZE", "PORT", "LEVEL")
)


def reports(files: dict[str, str], *, whole: bool = True) -> list[tuple[str, int, str | None]]:
    violations = check_consistency(files, whole=whole)
    return [(each.place.file, each.place.line, each.remedy) for each in violations]


def test_a_mistyped_variable_gets_the_name_that_is_like_it() -> None:
    files = {"engine/__init__.py": READS, "run.sh": "true\nexport ENGINE_SZIE=2\n"}

    assert reports(files) == [("run.sh", 2, "Did you mean `ENGINE_SIZE`?")]


def test_a_variable_that_only_begins_alike_is_no_suggestion() -> None:
    files = {"engine/__init__.py": READS, "run.sh": "export ENGINE_DENSE_OPTIMIZE=2\n"}

    assert reports(files) == [("run.sh", 1, "Remove the line")]


@pytest.mark.parametrize(
    "reader",
    [
        {"native/server.cu": 'getenv("ENGINE_EXTRA");\n'},
        {"engine/extra.py": 'import os\nx = os.environ.get(f"ENGINE_{key.upper()}")\n'},
        {"other.sh": 'echo "${ENGINE_EXTRA:-1}"\n'},
    ],
    ids=["native code", "a computed name", "a script"],
)
def test_a_variable_that_something_may_read_is_not_reported(reader: dict[str, str]) -> None:
    files = {"engine/__init__.py": READS, "run.sh": "export ENGINE_EXTRA=2\n", **reader}

    assert reports(files) == []


def test_what_nobody_reads_cannot_be_said_of_a_part_of_the_repository() -> None:
    files = {"engine/__init__.py": READS, "run.sh": "export ENGINE_SZIE=2\n"}

    assert reports(files, whole=False) == []


@pytest.mark.parametrize("text", ["def half(", "\0", "\ufeff", "x" * 100_000, "(" * 10_000])
def test_no_text_ends_it(text: str) -> None:
    files = {"engine/__init__.py": READS + text, "a.sh": text, "a.yml": text, "Dockerfile": text}

    assert isinstance(check_consistency(files), tuple)


# Which variables scripts, YAML and Dockerfiles set to a constant.


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

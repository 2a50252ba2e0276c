"""What is reported of several files together."""

import pytest

from ci_doctor.lint.consistency.check import check_consistency

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


def test_variables_of_a_ci_system_are_its_own() -> None:
    text = 'import os\na = os.getenv("BUILDKITE_JOB_ID", "a")\nb = os.getenv("BUILDKITE_JOB_ID", "b")\n'

    assert reports({"buildkite/__init__.py": text}) == []


def test_defaults_of_two_packages_are_not_compared() -> None:
    read = 'import os\nsize = os.environ.get("ENGINE_SIZE", "{}")\n'
    files = {"engine/__init__.py": read.format("1"), "client/__init__.py": read.format("2")}

    assert reports(files) == []


@pytest.mark.parametrize("text", ["def half(", "\0", "\ufeff", "x" * 100_000, "(" * 10_000])
def test_no_text_ends_it(text: str) -> None:
    files = {"engine/__init__.py": READS + text, "a.sh": text, "a.yml": text, "Dockerfile": text}

    assert isinstance(check_consistency(files), tuple)

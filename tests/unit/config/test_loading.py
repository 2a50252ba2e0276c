# SPDX-License-Identifier: Apache-2.0
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.config.loading import Config, Keys, find_config, line_of, load_config
from ci_doctor.errors import ConfigError

TEXT = '''\
# a = 1
top = 1
[a]  # [b]
x = """
y = 1
[c]
"""
z.w = { "q r" = 1, s.t = 2 }

["b.c".d]
list = [
  1,  # ]
  { deep = 1 },
]
[[e.f]]
k = 1
[[e.f]]
k = 2
[e.f.g]
k = 3
'''


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (("top",), 2),
        (("a",), 3),
        (("a", "x"), 4),
        (("a", "y"), 3),
        (("a", "z", "w", "q r"), 8),
        (("a", "z", "w", "s", "t"), 8),
        (("b.c", "d"), 10),
        (("b.c", "d", "list", 1, "deep"), 11),
        (("e", "f", 0, "k"), 16),
        (("e", "f", 1, "k"), 18),
        (("e", "f", 1, "g", "k"), 20),
        (("e", "f", 1, "missing"), 17),
        (("c",), None),
        ((), None),
    ],
)
def test_the_line_of_a_key(keys: Keys, line: int | None) -> None:
    assert line_of(TEXT, keys) == line


SCALARS = st.one_of(
    st.integers(-9, 9).map(str),
    st.booleans().map(lambda value: str(value).lower()),
    st.just('"""\nx = 1\n"""'),
)


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), SCALARS, st.sampled_from(["", "\n", "# k = 1\n"])),
        unique_by=lambda row: row[0],
    )
)
def test_every_key_stands_where_it_was_written(rows: list[tuple[str, str, str]]) -> None:
    text, expected = "[t]\n", {}
    for key, value, before in rows:
        text += before
        expected[key] = text.count("\n") + 1
        text += f"{key} = {value}\n"
    document: dict[str, Any] = tomllib.loads(text)
    assert {key: line_of(text, ("t", key)) for key in document["t"]} == expected


def test_a_long_array_takes_no_quadratic_time() -> None:
    text = "a = [\n" + "".join(f'  "word {number}",\n' for number in range(20_000)) + "]\nb = 1\n"
    assert line_of(text, ("b",)) == 20_003


@pytest.fixture(autouse=True)
def _work_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def own(text: str) -> Config:
    Path("ci-doctor.toml").write_text(text)
    return load_config(None, Path.cwd())


class TestFinding:
    def test_the_nearest_file_upwards_is_taken(self, tmp_path: Path) -> None:
        (tmp_path / "ci-doctor.toml").write_text("")
        inner = tmp_path / "a" / "b"
        inner.mkdir(parents=True)
        assert find_config(inner) == tmp_path / "ci-doctor.toml"
        (tmp_path / "a" / "ci-doctor.toml").write_text("")
        assert find_config(inner) == tmp_path / "a" / "ci-doctor.toml"

    def test_no_further_than_the_repositorys_root(self, tmp_path: Path) -> None:
        (tmp_path / "ci-doctor.toml").write_text("")
        (tmp_path / "repository" / ".git").mkdir(parents=True)
        assert find_config(tmp_path / "repository") is None

    @pytest.mark.parametrize(
        ("text", "ours"),
        [
            ("[tool.ci-doctor]", True),
            ("[tool.ci-doctor.setup-env]", True),
            ('  [ tool . "ci-doctor".setup-env ]', True),
            ("[[tool.ci-doctor.correctness.candidate.proof]]", True),
            ("[tool.ci-doctor-other]", False),
            ("# [tool.ci-doctor]", False),
            ("[project]", False),
        ],
    )
    def test_a_pyproject_counts_where_it_has_our_table(
        self, text: str, ours: bool, tmp_path: Path
    ) -> None:
        Path("pyproject.toml").write_text(f"[build-system]\n{text}\n")
        (tmp_path / ".git").mkdir()
        assert (find_config(tmp_path) is not None) == ours

    def test_without_any_the_configuration_is_empty(self, tmp_path: Path) -> None:
        (tmp_path / ".git").mkdir()
        assert load_config(None, tmp_path) == Config(path=None, tables={})


class TestErrors:
    """Errors name the file and the line."""

    @pytest.mark.parametrize(
        ("text", "message", "hint"),
        [
            ("x = 1\n[setup-evn]\n", "ci-doctor.toml:1: unknown section `x`", "known names"),
            (
                "\n[setup-evn.x]\n",
                "ci-doctor.toml:2: unknown section `setup-evn`",
                "did you mean `setup-env`?",
            ),
            (
                "setup-env = 1\n",
                "ci-doctor.toml:1: `setup-env` must be a table",
                "write [setup-env]",
            ),
            (
                "[[correctness]]\n",
                "ci-doctor.toml:1: `correctness` must be a table",
                "write [correctness]",
            ),
            ("[setup-env]\nprojects = [\n", "ci-doctor.toml", "mend that line"),
            ("[setup-env]\nprojects ? 1\n", "ci-doctor.toml:2: not valid TOML", "mend that line"),
        ],
    )
    def test_of_a_file_that_is_wrong_as_a_whole(self, text: str, message: str, hint: str) -> None:
        with pytest.raises(ConfigError) as caught:
            own(text)
        assert message in caught.value.message
        assert hint in str(caught.value.hint)

    @pytest.mark.parametrize("text", ["tool = 1", "[tool]\nci-doctor = 1"])
    def test_of_a_pyproject_whose_table_is_none(self, text: str) -> None:
        Path("pyproject.toml").write_text(text)
        with pytest.raises(ConfigError, match="must be a table"):
            load_config(Path("pyproject.toml"), Path.cwd())

    @pytest.mark.parametrize("content", [None, b"\xff\xfe", b"a = 1\0"])
    def test_of_a_file_that_cannot_be_read(self, content: bytes | None, tmp_path: Path) -> None:
        path = tmp_path / "c.toml"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ConfigError, match=r"c\.toml"):
            load_config(path, tmp_path)

    def test_of_a_directory(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="cannot be read"):
            load_config(tmp_path, tmp_path)

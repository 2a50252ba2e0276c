# SPDX-License-Identifier: Apache-2.0
""""""

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.config.decoding import (
    decode_section,
    path_in,
    read_exit_codes,
    seconds_above_zero,
    seconds_of,
)
from ci_doctor.config.loading import Config, Keys, find_config, line_of, load_config
from ci_doctor.correctness.settings import CorrectnessSettings
from ci_doctor.environment.determinism import Profile, SetupEnvSettings
from ci_doctor.errors import ConfigError, UsageError
from ci_doctor.model.outcome import EXIT_CODES, Verdict
from ci_doctor.services.spec import service_specs


@pytest.fixture(autouse=True)
def _work_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def own(text: str) -> Config:
    Path("ci-doctor.toml").write_text(text)
    return load_config(None, Path.cwd())


def setup_env(
    config: Config, environ: dict[str, str] | None = None, **flags: Any
) -> tuple[SetupEnvSettings, dict[str, str]]:
    return decode_section(config, "setup-env", SetupEnvSettings, environ=environ or {}, flags=flags)


def correctness(config: Config, environ: dict[str, str] | None = None) -> CorrectnessSettings:
    return decode_section(
        config, "correctness", CorrectnessSettings, environ=environ or {}, flags={}
    )[0]


class TestPlaces:
    """Errors name the file, the line and the nearest key."""

    @pytest.mark.parametrize(
        ("text", "where", "hint"),
        [
            (
                "[setup-env]\nprojects = ['.']\nprojets = []\n",
                "3: unknown key `projets`",
                "`projects`",
            ),
            (
                "\n[setup-env]\n'determinsm' = 'off'\n",
                "3: unknown key `determinsm`",
                "`determinism`",
            ),
            ("setup-env = { preloads = [] }\n", "1: unknown key `preloads`", "`preload`"),
            (
                "setup-env.allow_falback = true\n",
                "1: unknown key `allow_falback`",
                "`allow_fallback`",
            ),
            # A value in an array: the line where its statement begins.
            (
                "[setup-env]\nprojects = [\n  '.',\n  1,\n]\n",
                "2: projects.1: expected a text, got a whole number",
                "",
            ),
            (
                "[setup-env]\nallow_fallback = 1\n",
                "2: allow_fallback: expected true or false, got a whole number",
                "",
            ),
            (
                "[setup-env]\ndeterminism = 'of'\n",
                "2: determinism: 'of' is not one of its values",
                "",
            ),
        ],
    )
    def test_in_our_own_file(self, text: str, where: str, hint: str) -> None:
        with pytest.raises(ConfigError) as caught:
            setup_env(own(text))
        assert caught.value.message.startswith(f"ci-doctor.toml:{where}"), caught.value.message
        assert caught.value.hint
        assert hint in caught.value.hint

    def test_in_a_pyproject(self) -> None:
        Path("pyproject.toml").write_text(
            "[project]\nname = 'x'\n\n[tool.ci-doctor.setup-env]\nprojetcs = []\n"
        )
        with pytest.raises(ConfigError, match=r"^pyproject\.toml:5: unknown key `projetcs`"):
            setup_env(load_config(None, Path.cwd()))

    def test_in_nested_tables_inline_tables_and_arrays_of_tables(self) -> None:
        text = (
            "[correctness.candidate]\ncommand = 'x'\n\n"
            "[[correctness.candidate.proof]]\nmetric = 'a'\n\n"
            "[[correctness.candidate.proof]]\nmetric = 'b'\nabov = 1\n"
        )
        with pytest.raises(ConfigError) as caught:
            correctness(own(text))
        assert caught.value.message == "ci-doctor.toml:9: unknown key `abov`"
        assert caught.value.hint == "did you mean `above`?"
        with pytest.raises(ConfigError, match=r"^ci-doctor\.toml:2: unknown key `envi`"):
            correctness(own("[correctness]\nbaseline = { command = 'x', envi = {} }\n"))
        with pytest.raises(
            ConfigError,
            match=r"^ci-doctor\.toml:3: baseline\.env \(one of its values\): expected a text",
        ):
            correctness(own("[correctness.baseline]\ncommand = 'x'\nenv = { PORT = 80 }\n"))

    def test_in_a_quoted_name_with_a_dot(self) -> None:
        config = own('[services.a]\ncommand = "x"\n[services."b.c"]\ncommand = "x"\nredy = "/"\n')
        with pytest.raises(ConfigError) as caught:
            service_specs(config)
        assert caught.value.message == "ci-doctor.toml:5: unknown key `redy`"


class TestPrecedence:
    VARIABLE = "CI_DOCTOR_SETUP_ENV_DETERMINISM"

    def test_flags_win_over_the_environment_and_that_over_the_file(self) -> None:
        config = own("[setup-env]\ndeterminism = 'off'\n")
        environ = {self.VARIABLE: "default"}
        assert setup_env(config)[0].determinism is Profile.OFF
        assert setup_env(config, environ)[0].determinism is Profile.DEFAULT
        assert setup_env(config, environ, determinism="strict")[0].determinism is Profile.STRICT

    def test_origins_say_which_won(self) -> None:
        config = own("[setup-env]\ndeterminism = 'off'\nprojects = ['a']\npreload = ['x=y']\n")
        _, origins = setup_env(config, {"CI_DOCTOR_SETUP_ENV_PROJECTS": '["b"]'}, preload=("z=y",))
        assert origins == {
            "projects": "environment CI_DOCTOR_SETUP_ENV_PROJECTS",
            "pythons": "default",
            "venvs": "default",
            "determinism": "ci-doctor.toml:2",
            "preload": "flag --preload",
            "allow_fallback": "default",
            "if_missing": "default",
            "verify": "default",
            "verify_timeout": "default",
        }

    def test_a_flag_that_was_not_given_does_not_count(self) -> None:
        config = own("[setup-env]\nprojects = ['a']\nallow_fallback = true\n")
        settings, _ = setup_env(config, projects=(), allow_fallback=None)
        assert (settings.projects, settings.allow_fallback) == (("a",), True)

    @pytest.mark.parametrize(
        ("text", "value"), [("1", True), ("true", True), ("0", False), ("false", False)]
    )
    def test_a_switch_in_the_environment(self, text: str, value: bool) -> None:
        assert (
            setup_env(own(""), {"CI_DOCTOR_SETUP_ENV_ALLOW_FALLBACK": text})[0].allow_fallback
            is value
        )

    def test_numbers_and_words_in_the_environment(self) -> None:
        found = correctness(
            own(""),
            {
                "CI_DOCTOR_CORRECTNESS_RETRIES": "7",
                "CI_DOCTOR_CORRECTNESS_REQUESTS": "123",
                "CI_DOCTOR_CORRECTNESS_BASELINE": '{"command": "x"}',
                "CI_DOCTOR_CORRECTNESS_READY": "",
            },
        )
        assert (found.retries, found.requests, found.ready) == (7, "123", None)
        assert found.baseline is not None
        assert found.baseline.command == "x"

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("CORRECTNESS_RETRIES", "0"),
            ("CORRECTNESS_RETRIES", "many"),
            ("CORRECTNESS_BASELINE", '{"comand": "x"}'),
            ("CORRECTNESS_BASELINE", "{"),
        ],
    )
    def test_what_is_wrong_in_the_environment_is_named_by_its_variable(
        self, name: str, text: str
    ) -> None:
        with pytest.raises(ConfigError, match=f"^environment CI_DOCTOR_{name}") as caught:
            correctness(own("[correctness]\nretries = 2\n"), {f"CI_DOCTOR_{name}": text})
        assert caught.value.hint

    def test_a_list_in_the_environment_is_json(self) -> None:
        with pytest.raises(ConfigError) as caught:
            setup_env(own(""), {"CI_DOCTOR_SETUP_ENV_PRELOAD": "a=b"})
        assert caught.value.hint == 'set it to a JSON array, such as ["a", "b"], or unset it'

    def test_without_a_file_the_defaults_hold(self, tmp_path: Path) -> None:
        (tmp_path / ".git").mkdir()
        settings, origins = setup_env(load_config(None, tmp_path))
        assert settings == SetupEnvSettings()
        assert set(origins.values()) == {"default"}


@pytest.mark.parametrize(
    "name", ["ci-doctor.toml", "default.toml", "flags.toml", "environment.toml"]
)
def test_a_path_in_a_file_is_relative_to_that_file(name: str, tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    path = tmp_path / "below" / name
    path.write_text("[setup-env]\nprojects = ['p', '/absolute']\n")
    for config in (load_config(path, tmp_path), load_config(Path("below") / name, tmp_path)):
        settings, origins = setup_env(config)
        placed = [path_in(config, origins["projects"], text) for text in settings.projects]
        assert placed == [tmp_path / "below" / "p", Path("/absolute")]


@pytest.mark.parametrize(
    "origin", ["default", "flag --projects", "environment CI_DOCTOR_SETUP_ENV_PROJECTS"]
)
def test_any_other_path_is_relative_to_where_we_are(origin: str) -> None:
    assert path_in(own(""), origin, "p") == Path("p")


def test_a_duration_is_named_by_its_setting_if_it_is_wrong() -> None:
    assert seconds_of("1m", "budget") == 60
    assert seconds_of(0, "outage") == 0
    with pytest.raises(UsageError, match=r"^budget: not a duration"):
        seconds_of("soon", "budget")
    with pytest.raises(UsageError, match=r"^budget must be more than 0"):
        seconds_above_zero("0s", "budget")


def table(text: str) -> Config:
    return Config(path=Path("ci-doctor.toml").absolute(), tables=tomllib.loads(text), text=text)


def test_by_default_they_are_those_of_the_verdicts() -> None:
    codes, origins = read_exit_codes(table(""), {})
    assert codes == {
        str(verdict): int(EXIT_CODES[verdict]) for verdict in Verdict if verdict != "pass"
    }
    assert set(origins.values()) == {"default"}


def test_a_repository_has_its_own() -> None:
    codes, origins = read_exit_codes(
        table("[exit-codes]\ninfra = 255\n"), {"CI_DOCTOR_EXIT_CODES_VOID": "1"}
    )
    assert (codes["infra"], codes["void"], codes["regression"]) == (255, 1, 1)
    assert (origins["infra"], origins["void"]) == (
        "ci-doctor.toml:2",
        "environment CI_DOCTOR_EXIT_CODES_VOID",
    )


@given(st.integers(-300, 300))
def test_only_what_agent_and_shell_leave_to_us_can_serve(code: int) -> None:
    config = table(f"[exit-codes]\nvoid = {code}\n")
    if (1 <= code <= 124 or code == 255) and code not in {2, 70}:
        assert read_exit_codes(config, {})[0]["void"] == code
    else:
        with pytest.raises(ConfigError, match=r"ci-doctor\.toml:2: void = "):
            read_exit_codes(config, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("infra = 1", "infra and regression share the code 1"),
        ("regression = 75", "infra and regression share the code 75"),
        ("regression = 85", "nondeterministic and regression share the code 85"),
        ("infra = true", "infra: expected a whole number, got true or false"),
        ("infra = '75'", "infra: expected a whole number, got a text"),
        ("infar = 75", "unknown key `infar`"),
        ("pass = 3", "unknown key `pass`"),
        ("failed = 75", "infra and failed share the code 75"),
        ("failed = 85", "nondeterministic and failed share the code 85"),
    ],
)
def test_what_would_deceive_a_pipeline_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^ci-doctor.toml:2: {message}") as caught:
        read_exit_codes(table(f"[exit-codes]\n{text}\n"), {})
    assert caught.value.hint


def test_failed_may_share_the_code_of_regression() -> None:
    codes, _ = read_exit_codes(table("[exit-codes]\nregression = 3\nfailed = 3\n"), {})

    assert (codes["regression"], codes["failed"]) == (3, 3)


@pytest.mark.parametrize(
    ("section", "text", "message", "hint"),
    [
        ("correctness", 'compare = "token"', "'token' is not one", 'did you mean `tokens`? Or write "words"'),
        ("correctness", 'retries = "3"', "retries: expected a whole number, got a text", "write a whole number from 1 on"),
        ("correctness", "retries = 0", "retries: expected a whole number >= 1", "write a whole number from 1 on"),
        ("services.a", "command = 'x'\nready = 3", "ready: expected a text or a table", "write a text in quotes or a table"),
        ("services.a", "command = 'x'\nneeds = [1]", r"needs\.0: expected a text", "write a text in quotes"),
        ("services.a", "command = 'x'\nenv = {A = 1}", r"env \(one of its values\)", "write a text in quotes"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_answered_by_what_may_stand_there(
    section: str, text: str, message: str, hint: str
) -> None:
    config = table(f"[{section}]\n{text}\n")
    with pytest.raises(ConfigError, match=message) as caught:
        correctness(config) if section == "correctness" else service_specs(config)
    assert (caught.value.hint or "").startswith(hint)


@pytest.mark.parametrize(
    ("variable", "near"),
    [
        ("CI_DOCTOR_CORRECTNESS_RETRYS", "CI_DOCTOR_CORRECTNESS_RETRIES"),
        ("CI_DOCTOR_CORECTNESS_RETRIES", "CI_DOCTOR_CORRECTNESS_RETRIES"),
        ("CI_DOCTOR_CORRECTNESS_PARALLEL", "CI_DOCTOR_CORRECTNESS_CONCURRENCY"),
        # Those of others, and of our own hooks.
        ("CI_DOCTOR_CORRECTNESS_XYZZY", None),
        ("CI_DOCTOR_PYTEST_PLAN", None),
        ("CI_DOCTOR_PRELOAD_TIMEOUT", None),
    ],
)
def test_a_mistyped_variable_is_not_ignored(variable: str, near: str | None) -> None:
    if near is None:
        correctness(table(""), {variable: "5"})
        return
    with pytest.raises(ConfigError, match=variable) as caught:
        correctness(table(""), {variable: "5"})
    assert caught.value.hint == f"did you mean `{near}`?"


@pytest.mark.parametrize("text", ["²", "x", "1.5", "2"])
def test_a_variable_that_cannot_serve_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match="CI_DOCTOR_EXIT_CODES_INFRA"):
        read_exit_codes(table(""), {"CI_DOCTOR_EXIT_CODES_INFRA": text})


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


class TestFinding:
    def test_the_nearest_file_upwards_is_taken(self, tmp_path: Path) -> None:
        (tmp_path / "ci-doctor.toml").write_text("")
        inner = tmp_path / "a" / "b"
        inner.mkdir(parents=True)
        assert find_config(inner) == tmp_path / "ci-doctor.toml"
        (tmp_path / "a" / "ci-doctor.toml").write_text("")
        assert find_config(inner) == tmp_path / "a" / "ci-doctor.toml"

    def test_a_directory_of_that_name_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "ci-doctor.toml").mkdir()
        with pytest.raises(ConfigError, match=r"ci-doctor\.toml: cannot be read"):
            load_config(None, tmp_path)

    def test_a_pipe_into_which_nobody_writes_is_an_error(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "ci-doctor.toml")
        with pytest.raises(ConfigError, match=r"ci-doctor\.toml: cannot be read: a pipe"):
            load_config(None, tmp_path)

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
            ("x = 1\n[setup-evn]\n", ":1: unknown section `x`", "known names"),
            ("\n[setup-evn.x]\n", ":2: unknown section `setup-evn`", "did you mean `setup-env`?"),
            ("setup-env = 1\n", ":1: `setup-env` must be a table", "write [setup-env]"),
            ("[[correctness]]\n", ":1: `correctness` must be a table", "write [correctness]"),
            ("[setup-env]\nprojects = [\n", "", "mend that line"),
            ("[setup-env]\nprojects ? 1\n", ":2: not valid TOML", "mend that line"),
        ],
    )
    def test_of_a_file_that_is_wrong_as_a_whole(self, text: str, message: str, hint: str) -> None:
        with pytest.raises(ConfigError) as caught:
            own(text)
        assert f"ci-doctor.toml{message}" in caught.value.message
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

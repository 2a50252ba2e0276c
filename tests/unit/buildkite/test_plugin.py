# SPDX-License-Identifier: Apache-2.0
"""The plugin's options, as the agent hands them over, and what of ours reaches another plugin's container."""

import json
from pathlib import Path

import pytest
import yaml

from ci_doctor.buildkite.plugin import (
    CacheOption,
    Container,
    PluginOptions,
    container_of,
    names_to_pass,
    options_and_problem,
    plugin_name,
    read_plugin_options,
    report_directory_inside,
    report_root,
    setup_env_arguments,
    what_is_missing,
)
from ci_doctor.errors import UsageError
from tests.support.plugin_environment import plugin_variables

FULL: dict[str, object] = {
    "projects": [".", "it's $HOME"],
    "determinism": "strict",
    "preload": "a=b:C,D",
    "pythons": ["/usr/bin/python3"],
    "venvs": ".venv",
    "setup-env": False,
    "config": "ci/doctor.toml",
    "allow-fallback": True,
    "annotate": False,
    "report-dir": "/srv/reports",
    "executable": "/opt/ci-doctor",
    "install": "ci-doctor-toolkit==1.2.3",
    "install-dir": "/var/cache/ci",
    "diagnose": ["build_*.log", "logs/**/*.log"],
    "exit-codes": True,
    "watch": True,
    "cache": {"store": "s3://bucket/caches", "families": ["triton", "mine=/c"], "save": False},
}
READ = PluginOptions(
    projects=(".", "it's $HOME"),
    determinism="strict",
    preload=("a=b:C,D",),
    pythons=("/usr/bin/python3",),
    venvs=(".venv",),
    setup_env=False,
    config="ci/doctor.toml",
    allow_fallback=True,
    annotate=False,
    report_dir="/srv/reports",
    executable="/opt/ci-doctor",
    install="ci-doctor-toolkit==1.2.3",
    install_dir="/var/cache/ci",
    diagnose=("build_*.log", "logs/**/*.log"),
    exit_codes=True,
    watch=True,
    cache=CacheOption(store="s3://bucket/caches", families=("triton", "mine=/c"), save=False),
)
JOB = {"BUILDKITE": "true", "BUILDKITE_JOB_ID": "j1", "BUILDKITE_BUILD_CHECKOUT_PATH": "/b/co"}


def read(configuration: object) -> PluginOptions:
    return read_plugin_options(plugin_variables("ci-doctor", configuration))


def test_every_option_is_read() -> None:
    assert read(FULL) == READ


@pytest.mark.parametrize(
    ("configuration", "options"),
    [
        (None, PluginOptions()),
        ({}, PluginOptions()),
        # YAML makes a bool of a bare `off`, and interpolation a text of a switch.
        ({"determinism": False}, PluginOptions(determinism="off")),
        (
            {"allow-fallback": "true", "annotate": "false"},
            PluginOptions(allow_fallback=True, annotate=False),
        ),
        ({"cache": True}, PluginOptions(cache=CacheOption())),
        ({"cache": "true"}, PluginOptions(cache=CacheOption())),
        ({"cache": False}, PluginOptions()),
        ({"cache": {"budget": 30}}, PluginOptions(cache=CacheOption(budget="30"))),
    ],
)
def test_each_way_to_write_an_option_is_read(configuration: object, options: PluginOptions) -> None:
    assert read(configuration) == options


@pytest.mark.parametrize(
    ("typed", "nearest"),
    [
        ("project", "projects"),
        ("setupenv", "setup-env"),
        ("anotate", "annotate"),
        ("venv", "venvs"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_one(typed: str, nearest: str) -> None:
    with pytest.raises(UsageError, match=f"no option `{typed}`") as raised:
        read({typed: "x"})

    assert raised.value.hint == f"did you mean `{nearest}`?"


@pytest.mark.parametrize(
    "configuration",
    [
        {"projects": 3},
        {"projects": [["."]]},
        {"projects": {"a": "b"}},
        {"setup-env": "maybe"},
        {"setup-env": 1},
        {"annotate": None},
        {"determinism": "full"},
        {"determinism": True},
        {"config": ["a"]},
        {"install": ["ci-doctor-toolkit==1"]},
        {"diagnose": {"a": "b"}},
        {"exit-codes": 75},
        # A number is no switch.
        *({"cache": 0}, {"cache": 1}, {"determinism": 0}),
        ["projects"],
        "projects",
    ],
)
def test_a_value_of_the_wrong_type_is_a_usage_error(configuration: object) -> None:
    with pytest.raises(UsageError):
        read_plugin_options({"BUILDKITE_PLUGIN_CONFIGURATION": json.dumps(configuration)})


@pytest.mark.parametrize(
    "location",
    [
        "./buildkite_plugins/ci-doctor",
        "https://h/o/r.git/buildkite_plugins/ci-doctor#v1",
        "org/ci-doctor#v1.2",
        "ssh://git@h/o/ci-doctor-buildkite-plugin.git#v1",
    ],
)
def test_a_configuration_that_the_agent_dropped_for_a_null_is_refused(location: str) -> None:
    configuration = {"projects": ["."], "venvs": [None]}
    variables = plugin_variables("ci-doctor", configuration)
    assert variables == {}

    with pytest.raises(UsageError, match="the agent dropped all of it"):
        read_plugin_options(
            variables | {"BUILDKITE_PLUGINS": json.dumps([{location: configuration}])}
        )


@pytest.mark.parametrize(
    "plugins",
    [
        "",
        "{",
        "[]",
        "{}",
        '["./ci-doctor"]',
        '[{"./ci-doctor":null}]',
        '[{"docker#v5":{"image":null}}]',
        '[{"./ci-doctor-report":{"a":null}}]',
    ],
)
def test_the_nulls_of_other_plugins_are_not_ours(plugins: str) -> None:
    assert read_plugin_options({"BUILDKITE_PLUGINS": plugins}) == PluginOptions()


def test_the_arguments_repeat_a_flag_for_each_value_that_is_set() -> None:
    assert setup_env_arguments(PluginOptions()) == []
    assert setup_env_arguments(READ) == [
        *("--config", "ci/doctor.toml"),
        *("--project", ".", "--project", "it's $HOME"),
        *("--python", "/usr/bin/python3"),
        *("--venv", ".venv"),
        *("--determinism", "strict"),
        *("--preload", "a=b:C,D"),
        "--allow-fallback",
    ]


def test_the_option_wins_over_the_variable() -> None:
    environ = JOB | {"CI_DOCTOR_REPORT_DIR": "elsewhere"}

    assert report_root(PluginOptions(report_dir="/srv/r"), environ) == Path("/srv/r/j1")
    assert report_root(PluginOptions(), environ) == Path("/b/co/elsewhere/j1")


def test_outside_a_job_there_is_no_report_directory() -> None:
    with pytest.raises(UsageError, match="not a Buildkite job"):
        report_root(PluginOptions(), {})


def test_plugin_yml_and_the_code_know_the_same_options() -> None:
    definition = yaml.safe_load(
        (Path(__file__).parents[3] / "buildkite_plugins/ci-doctor/plugin.yml").read_text()
    )
    fields = {name.replace("_", "-") for name in PluginOptions.__struct_fields__}

    assert set(definition["configuration"]["properties"]) == fields == set(FULL)


@pytest.mark.parametrize(
    ("job_id", "folder"),
    [
        ("0190046e-e199-453b-a302-a21a4d649d31", "0190046e-e199-453b-a302-a21a4d649d31"),
        ("../../escaped", "escaped"),
        ("..", "job"),
        ("-rf", "rf"),
        ("$(touch x)", "touch-x"),
        ("x" * 300, "x" * 100),
    ],
)
def test_the_reports_of_a_job_lie_in_one_folder_whatever_its_id_is(
    job_id: str, folder: str
) -> None:
    environ = {**JOB, "BUILDKITE_JOB_ID": job_id}

    root = report_root(PluginOptions(), environ)

    assert root == Path("/b/co/ci-doctor-report", folder)
    assert report_root(PluginOptions(), {**environ, "CI_DOCTOR_REPORT_DIR": str(root)}) == root


def cached(value: object) -> dict[str, str]:
    return plugin_variables("ci-doctor", {"cache": value})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"stor": "x"}, "no option `cache: stor`"),
        ({"store": ""}, "`cache: store` of the ci-doctor plugin is empty"),
        ({"strict": "perhaps"}, "neither true nor false"),
        (["triton"], "neither true, false nor a mapping"),
    ],
)
def test_what_is_no_option_is_refused(value: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_plugin_options(cached(value))


@pytest.mark.parametrize("value", [{"trust": ["signed"]}, {"trsut": "signed"}, {"save": "flase"}])
def test_a_cache_whose_options_are_wrong_is_no_cache_for_the_later_hooks(value: object) -> None:
    options, problem = options_and_problem(cached(value))
    assert problem is not None
    assert options.cache is None


@pytest.mark.parametrize("value", ["", " ", ["a", ""]])
def test_an_interpolated_variable_without_a_value_is_named_as_empty(value: object) -> None:
    with pytest.raises(UsageError, match="option `projects` of the ci-doctor plugin is empty"):
        read_plugin_options(plugin_variables("ci-doctor", {"projects": value}))


CHECKOUT = Path("/b/co")
ROOT = CHECKOUT / "out" / "j1"
NAMES = ("CUBLAS_WORKSPACE_CONFIG", "CI_DOCTOR_REPORT_DIR")
LIST = {"env-propagation-list": "CI_DOCTOR_VARIABLES"}


def container(plugin: str, options: object) -> Container | None:
    ours: dict[str, object] = {"./buildkite_plugins/ci-doctor": None}
    environ = {"BUILDKITE_PLUGINS": json.dumps([ours, {plugin: options}])}
    return container_of(environ, CHECKOUT)


@pytest.mark.parametrize(
    ("location", "name"),
    [
        ("docker#v5.13.0", "docker"),
        ("github.com/buildkite-plugins/docker-buildkite-plugin#v5.13.0", "docker"),
        ("https://github.com/buildkite-plugins/docker-buildkite-plugin.git#v5", "docker"),
        ("ssh://git@h/mirror/Docker_Compose-buildkite-plugin.git", "docker-compose"),
        ("./.buildkite/plugins/docker", "docker"),
        ("docker-login#v3", "docker-login"),
    ],
)
def test_a_plugin_is_known_by_the_name_that_the_agent_gives_it(location: str, name: str) -> None:
    assert plugin_name(location) == name


@pytest.mark.parametrize(
    ("plugin", "options"),
    [
        ("docker-login#v3", {}),
        ("docker-compose#v5", {"build": "app"}),
        ("kubernetes", {"podSpec": {}}),
    ],
)
def test_a_step_without_a_container_of_its_own_has_none(plugin: str, options: object) -> None:
    assert container(plugin, options) is None


@pytest.mark.parametrize(
    ("plugin", "options", "directory"),
    [
        ("docker#v5", None, "/workdir/out/j1"),
        ("docker#v5", {"workdir": "/app"}, "/app/out/j1"),
        ("docker#v5", {"mount-checkout": False}, "out/j1"),
        ("docker#v5", {"mount-checkout": "false", "volumes": ["./:/x"]}, "/x/out/j1"),
        ("docker#v5", {"volumes": ["/b/co/out:/r:rw"]}, "/r/j1"),
        ("docker-compose#v5", {"run": "a"}, "out/j1"),
        ("docker-compose#v5", {"run": "a", "mount-checkout": True}, "/workdir/out/j1"),
        ("docker-compose#v5", {"run": "a", "mount-checkout": "/a", "workdir": "/w"}, "/a/out/j1"),
    ],
)
def test_the_report_directory_is_named_as_it_is_in_the_container(
    plugin: str, options: object, directory: str
) -> None:
    made = container(plugin, options)

    assert made is not None
    assert report_directory_inside(made, ROOT) == directory


@pytest.mark.parametrize(
    ("plugin", "options", "said"),
    [
        ("docker#v5", LIST, None),
        (
            "docker#v5",
            {"environment": ["CI_DOCTOR_REPORT_DIR", "CUBLAS_WORKSPACE_CONFIG=:0"]},
            None,
        ),
        ("docker-compose#v5", {"run": "a", "mount-checkout": True, **LIST}, None),
        (
            "docker-compose#v5",
            {"run": "a", "mount-checkout": True, "env": dict.fromkeys(NAMES)},
            None,
        ),
        ("docker#v5", {}, "gets none of the variables"),
        ("docker#v5", {"propagate-environment": True}, "gets none of the variables"),
        (
            "docker#v5",
            {"environment": ["CI_DOCTOR_REPORT_DIR"]},
            "gets only some of the variables that ci-doctor exports: give that plugin `env-",
        ),
        ("docker#v5", {"env-propagation-list": "MINE"}, "to the variable MINE"),
        ("docker#v5", {"mount-checkout": False, **LIST}, "`mount-checkout: true`"),
        ("docker-compose#v5", {"run": "a", **LIST}, "unless the compose file mounts the checkout"),
    ],
)
def test_what_cannot_work_is_one_line_with_the_setting_that_helps(
    plugin: str, options: object, said: str | None
) -> None:
    made = container(plugin, options)

    assert made is not None
    line = what_is_missing(made, ROOT, NAMES)
    if said is None:
        assert line is None
        return
    assert line is not None
    assert said in line
    assert "\n" not in line


def test_a_report_directory_that_is_not_mounted_is_named() -> None:
    made = container("docker#v5", LIST)

    assert made is not None
    line = what_is_missing(made, Path("/srv/reports/j1"), NAMES)
    assert line is not None
    assert "/srv/reports/j1 is not mounted" in line
    assert "`report-dir`" in line


@pytest.mark.parametrize(
    "options",
    [
        {"volumes": "no-list", "environment": {"a": 1}},
        {"volumes": [3, "x", ":/y", "/z:"], "environment": [None, 3], "mount-checkout": None},
        [],
        "text",
    ],
)
def test_options_of_another_shape_are_no_error(options: object) -> None:
    made = container("docker#v5", options)

    assert made is not None
    assert what_is_missing(made, ROOT, NAMES) is not None


def test_the_names_hold_the_variables_of_the_job_that_are_set_and_no_token() -> None:
    environ = {**JOB, "BUILDKITE_AGENT_ACCESS_TOKEN": "secret"}

    assert names_to_pass(("A", "B", "A"), environ) == "A B BUILDKITE BUILDKITE_JOB_ID"

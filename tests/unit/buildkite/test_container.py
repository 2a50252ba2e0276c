# SPDX-License-Identifier: Apache-2.0
"""What of ours reaches the container that another plugin runs the command in."""

import json
from pathlib import Path

import pytest

from ci_doctor.buildkite.container import (
    Container,
    container_of,
    names_to_pass,
    report_directory_inside,
    what_is_missing,
)
from ci_doctor.buildkite.plugin import plugin_name

CHECKOUT = Path("/b/co")
ROOT = CHECKOUT / "ci-doctor-report" / "j1"
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
        ("docker#v5", None, "/workdir/ci-doctor-report/j1"),
        ("docker#v5", {"workdir": "/app"}, "/app/ci-doctor-report/j1"),
        ("docker#v5", {"mount-checkout": False}, "ci-doctor-report/j1"),
        ("docker#v5", {"mount-checkout": "false", "volumes": ["./:/x"]}, "/x/ci-doctor-report/j1"),
        ("docker#v5", {"volumes": ["/b/co/ci-doctor-report:/r:rw"]}, "/r/j1"),
        ("docker-compose#v5", {"run": "app"}, "ci-doctor-report/j1"),
        (
            "docker-compose#v5",
            {"run": "app", "mount-checkout": True},
            "/workdir/ci-doctor-report/j1",
        ),
        (
            "docker-compose#v5",
            {"run": "app", "mount-checkout": "/a", "workdir": "/w"},
            "/a/ci-doctor-report/j1",
        ),
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
    environ = {
        "BUILDKITE": "true",
        "BUILDKITE_JOB_ID": "j1",
        "BUILDKITE_AGENT_ACCESS_TOKEN": "secret",
        "BUILDKITE_BUILD_CHECKOUT_PATH": "/b/co",
    }

    assert names_to_pass(("A", "B", "A"), environ) == "A B BUILDKITE BUILDKITE_JOB_ID"

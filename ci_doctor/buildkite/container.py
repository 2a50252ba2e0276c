# SPDX-License-Identifier: Apache-2.0
"""Pure. The container that another plugin runs a step's command in: what of ours reaches it.

By the documented options of the plugins docker and docker-compose
(https://github.com/buildkite-plugins/docker-buildkite-plugin, v5.13.0, and
https://github.com/buildkite-plugins/docker-compose-buildkite-plugin, v5.14.0). In a pod of
agent-stack-k8s the hooks pre-command and post-command run in the command's own container, so there
is nothing to do (https://buildkite.com/docs/agent/v3/self-hosted/agent-stack-k8s, "Hook execution
differences").
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct

from ci_doctor.buildkite.plugin import configurations_of
from ci_doctor.buildkite.steps import TASK_VARIABLE

# Holds the names of what the container needs; "If you set this to VALUE, and VALUE is an
# environment variable containing a space-separated list of environment variables …" (both READMEs).
NAMES_VARIABLE = "CI_DOCTOR_VARIABLES"
_LIST_OPTION = "env-propagation-list"
# What a ci-doctor in the container puts into its reports of the job, and the steps that it uploads are made of; of
# these, those that are set.
_JOB_VARIABLES = (
    "CI",
    "BUILDKITE",
    "BUILDKITE_JOB_ID",
    "BUILDKITE_BUILD_ID",
    "BUILDKITE_BUILD_NUMBER",
    "BUILDKITE_BUILD_URL",
    "BUILDKITE_STEP_ID",
    "BUILDKITE_STEP_KEY",
    "BUILDKITE_LABEL",
    "BUILDKITE_COMMAND",
    "BUILDKITE_RETRY_COUNT",
    "BUILDKITE_PARALLEL_JOB",
    "BUILDKITE_PARALLEL_JOB_COUNT",
    "BUILDKITE_TIMEOUT",
    "BUILDKITE_BRANCH",
    "BUILDKITE_COMMIT",
    "BUILDKITE_AGENT_META_DATA_QUEUE",
    "BUILDKITE_ARTIFACT_PATHS",
    "BUILDKITE_PLUGINS",
    TASK_VARIABLE,
)
# Where both plugins mount the checkout without the option `workdir`.
_WORKDIR = "/workdir"


class Container(Struct, frozen=True, kw_only=True):
    """A container that a plugin starts for the command.

    `mounts` are the directories of the host and where they lie in the container, absolute both.
    `passed` are the names of the variables that it gets, and `listed` the variable whose words are
    such names, too; pipeline variables (`propagate-environment`) do not count, because ours are not
    among them.
    """

    plugin: str
    mounts: tuple[tuple[Path, PurePosixPath], ...]
    passed: frozenset[str]
    listed: str | None = None

    def inside(self, path: Path) -> PurePosixPath | None:
        """Where `path` of the host lies in the container; None if it is not there."""
        fitting = [mount for mount in self.mounts if path.is_relative_to(mount[0])]
        if not fitting:
            return None
        source, target = max(fitting, key=lambda mount: len(mount[0].parts))
        return target / path.relative_to(source)

    def lacks(self, names: Sequence[str]) -> list[str]:
        """Those of `names` that the container does not get."""
        if self.listed == NAMES_VARIABLE:
            return []
        return [name for name in names if name not in self.passed]


def names_to_pass(exported: Sequence[str], environ: Mapping[str, str]) -> str:
    """The value of NAMES_VARIABLE: `exported`, and the variables of the job that are set."""
    job = [name for name in _JOB_VARIABLES if name in environ]
    return " ".join(dict.fromkeys([*exported, *job]))


def container_of(environ: Mapping[str, str], directory: Path) -> Container | None:
    """The container of the step's command; None if it runs beside the hooks.

    `directory` is where the hooks run, which is what these plugins mount.
    """
    for options in configurations_of("docker", environ):
        return _container("docker", options, directory, _docker_checkout(options))
    for options in configurations_of("docker-compose", environ):
        if options.get("run"):
            return _container("docker-compose", options, directory, _compose_checkout(options))
    return None


def report_directory_inside(container: Container, root: Path) -> str:
    """What CI_DOCTOR_REPORT_DIR is to be in the container.

    If `root` is not mounted, a path below the working directory: a compose file may mount the
    checkout there without the plugin knowing.
    """
    inside = container.inside(root)
    return str(inside) if inside else "/".join(root.parts[-2:])


def what_is_missing(container: Container, root: Path, names: Sequence[str]) -> str | None:
    """One sentence about what cannot reach the container, with the settings that make it work."""
    parts = [part for part in (_variables(container, names), _reports(container, root)) if part]
    if not parts:
        return None
    return f"ci-doctor: the command runs in a container of the {container.plugin} plugin; " + (
        "; ".join(parts)
    )


def _variables(container: Container, names: Sequence[str]) -> str | None:
    lacking = container.lacks(names)
    if not lacking:
        return None
    if container.listed is not None:
        return (
            f"it does not get {' '.join(lacking)}: add the words of ${NAMES_VARIABLE} to the "
            f"variable {container.listed}, which `{_LIST_OPTION}` names"
        )
    what = "none" if len(lacking) == len(names) else "only some"
    return (
        f"it gets {what} of the variables that ci-doctor exports: "
        f"give that plugin `{_LIST_OPTION}: {NAMES_VARIABLE}`"
    )


def _reports(container: Container, root: Path) -> str | None:
    if container.inside(root) is not None:
        return None
    if container.plugin == "docker-compose":
        return (
            "its reports are lost, unless the compose file mounts the checkout as the working "
            "directory: give that plugin `mount-checkout: true`"
        )
    if not container.mounts:
        return "its reports are lost: give that plugin `mount-checkout: true`"
    return (
        f"its reports are lost, because {root} is not mounted: name a directory of the checkout by "
        "`report-dir`, or mount that one by the docker plugin's `volumes`"
    )


def _container(
    plugin: str, options: Mapping[str, object], directory: Path, checkout: str | None
) -> Container:
    mounts = list(_volumes(options.get("volumes"), directory))
    if checkout is not None:
        mounts.append((directory, PurePosixPath(checkout)))
    listed = options.get(_LIST_OPTION)
    variables = [*_names(options.get("environment")), *_names(options.get("env"))]
    return Container(
        plugin=plugin,
        mounts=tuple(mounts),
        passed=frozenset(variables),
        listed=listed if isinstance(listed, str) else None,
    )


def _docker_checkout(options: Mapping[str, object]) -> str | None:
    """Where the docker plugin mounts the checkout, which it does unless it is told otherwise."""
    value = options.get("mount-checkout", True)
    if not (value is True or str(value) in ("true", "on", "1")):
        return None
    return str(options.get("workdir") or _WORKDIR)


def _compose_checkout(options: Mapping[str, object]) -> str | None:
    mount = options.get("mount-checkout", False)
    if isinstance(mount, str) and mount.startswith("/"):
        return mount
    if mount in (True, "true"):
        return str(options.get("workdir") or _WORKDIR)
    return None


def _volumes(value: object, directory: Path) -> Iterator[tuple[Path, PurePosixPath]]:
    """`SOURCE:TARGET[:OPTIONS]`; `.` and `./` at the beginning stand for the working directory."""
    for item in value if isinstance(value, list) else [value]:
        if not isinstance(item, str):
            continue
        source, _, rest = item.partition(":")
        target = rest.partition(":")[0]
        if not target.startswith("/"):
            continue
        if source.startswith("/"):
            yield Path(source), PurePosixPath(target)
        elif re.match(r"\.(/|$)", source):
            yield directory / source, PurePosixPath(target)


def _names(value: object) -> Iterator[str]:
    """The variables of `environment`: `KEY` or `KEY=VALUE`, in a list, alone, or as a mapping."""
    if isinstance(value, dict):
        yield from (str(name) for name in value)
        return
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str):
            yield item.partition("=")[0]

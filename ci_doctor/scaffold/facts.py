# SPDX-License-Identifier: Apache-2.0
"""Pure. What `init` knows of a repository, as one value."""

from msgspec import Struct

from ci_doctor.scaffold.candidates import ServerCandidate


class Packaging(Struct, frozen=True, kw_only=True):
    """How a project is built and installed.

    backend: the build backend of pyproject.toml. install: the shell commands that install what the
    server needs, from the top of the repository; empty if nothing says it.
    """

    backend: str | None = None
    install: tuple[str, ...] = ()


class ExistingFiles(Struct, frozen=True, kw_only=True):
    """What is there already, relative to the top of the repository, and is never changed.

    config: the configuration that ci-doctor reads. plugin: the folder of a vendored plugin.
    requests: the requests file of the configuration, if that names one: relative to the directory.
    has_hook: whether the file of pre-commit has our hook. ignores_reports: whether git does.
    """

    config: str | None = None
    requests: str | None = None
    pre_commit: bool = False
    has_hook: bool = False
    ignores_reports: bool = False
    plugin: str | None = None
    has_buildkite: bool = False
    has_workflows: bool = False


class ScaffoldFacts(Struct, frozen=True, kw_only=True):
    """All that was read.

    root: the top of the repository, or the directory itself without one. servers: the likeliest first. commands: how many commands of servers were read. refused: those that
    cannot be started as they stand, as `file:line`. waiting: scripts that start a server and wait by
    sleeping or polling. queues: the agents' queues that pipelines name. unread: files beyond a limit.
    prefix: the directory of the configuration, from the top of the repository; empty for the top.
    """

    root: str = ""
    is_repository: bool = False
    servers: tuple[ServerCandidate, ...] = ()
    commands: int = 0
    refused: tuple[str, ...] = ()
    pipelines: tuple[str, ...] = ()
    workflows: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    packaging: Packaging = Packaging()
    existing: ExistingFiles = ExistingFiles()
    files: int = 0
    unread: tuple[str, ...] = ()
    is_whole: bool = True
    prefix: str = ""

    @property
    def config(self) -> str | None:
        """What a step must name as its configuration; None if ci-doctor looks there by itself."""
        proposed = f"{self.prefix}/ci-doctor.toml" if self.prefix else "ci-doctor.toml"
        path = self.existing.config or proposed
        return None if path in {"ci-doctor.toml", "pyproject.toml"} else path

# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of `ci-doctor setup-env` and `ci-doctor run`."""

from enum import StrEnum

from msgspec import Struct

from ci_doctor.model.facts import Facts


class SetVariable(Struct, frozen=True, kw_only=True):
    """Export `name=value`; `why` is one clause for a reader."""

    name: str
    value: str
    why: str


class FileState(StrEnum):
    """What writing a file would do, or did."""

    CREATE = "create"
    REPLACE = "replace"
    UNCHANGED = "unchanged"
    REMOVE = "remove"


class DeterminismFact(Struct, frozen=True, kw_only=True):
    """One determinism variable: the value that was requested, by whom, and what is known of its effect."""

    name: str
    requested: str
    set_by: str
    effective: str


class ProofFact(Struct, frozen=True, kw_only=True):
    """Whether a build of a project's metadata has proven its pin; `reason` is None if it has."""

    project: str
    proven: bool
    seconds: float
    reason: str | None = None


class SetupEnvFacts(Facts, frozen=True, kw_only=True):
    """What a job is to export.

    `exports` in their order; `changed` names the variables and files that differ from before;
    `targets` are the interpreters that the environment was prepared for. `proofs` are the pins
    that were tried in a build, and those that could not be.
    """

    exports: dict[str, str]
    changed: tuple[str, ...]
    determinism: tuple[DeterminismFact, ...]
    targets: tuple[str, ...]
    proofs: tuple[ProofFact, ...] = ()


class RunFacts(SetupEnvFacts, frozen=True, kw_only=True):
    """`preload` are the rules by which the command preloads."""

    preload: tuple[str, ...] = ()

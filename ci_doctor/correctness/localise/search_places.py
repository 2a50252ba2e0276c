# SPDX-License-Identifier: Apache-2.0
"""Acts on files: where the starts of a search are made: builds of pins, and worktrees of commits."""

import hashlib
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from ci_doctor.correctness.localise.arm_settings import ArmPair
from ci_doctor.correctness.localise.bisection import GOOD
from ci_doctor.correctness.localise.commits import CommitRange, make_worktree, remove_worktree
from ci_doctor.correctness.settings import Arm, ExperimentPlan
from ci_doctor.system.files.access import write_atomically

BUILDS = ".ci-doctor-builds"
CHECKOUTS = ".ci-doctor-checkouts"
# Checkouts with their builds that are kept at once.
_KEPT = 8
_ID = 12

Build = tuple[tuple[str, ...], Path, Mapping[str, str], Path]


def filled(command: str, values: Mapping[str, str]) -> tuple[str, ...]:
    """The words of a build command with its placeholders replaced. Raises ValueError on an open quotation."""
    words = []
    for word in shlex.split(command):
        for name, value in values.items():
            word = word.replace(f"{{{name}}}", value)  # noqa: PLW2901
        words.append(word)
    return tuple(words)


class SettingPlace:
    """Starts of an arm that has some of the candidate's settings; each file of pins is built once."""

    def __init__(self, plan: ExperimentPlan, pair: ArmPair, build: str | None) -> None:
        self._plan = plan
        self._pair = pair
        self._build = build

    def plan(self, point: int) -> ExperimentPlan:
        """The plan whose arms are both what is started there."""
        arm = self._pair.arm(point)
        placeholders = {"build": str(self._directory(point))} if self._build else {}
        return replace(
            self._plan,
            arms={Arm.BASELINE: arm, Arm.CANDIDATE: arm},
            placeholders={**self._plan.placeholders, **placeholders},
        )

    def build(self, point: int) -> Build | None:
        """What installs these pins."""
        if self._build is None:
            return None
        directory = self._directory(point)
        pins, note = directory.with_suffix(".txt"), directory.with_suffix(".built")
        if not note.exists():
            # One that was cut off is made anew.
            shutil.rmtree(directory, ignore_errors=True)
            write_atomically(pins, self._pair.pins_of(point).encode())
        words = filled(self._build, {"pins": str(pins), "build": str(directory)})
        return words, self._plan.services_directory, self._plan.environment, note

    def _directory(self, point: int) -> Path:
        content = self._pair.pins_of(point).encode()
        return self._plan.directory / BUILDS / hashlib.sha256(content).hexdigest()[:_ID]


class CommitPlace:
    """Starts of a commit in a worktree of its own, which is built once. `below` leads to the services' directory."""

    def __init__(
        self, plan: ExperimentPlan, commits: CommitRange, build: str | None, below: str
    ) -> None:
        self._plan = plan
        self._range = commits
        self._build = build
        self._below = below
        self._used: list[str] = []

    def commit(self, point: int) -> str:
        """The id of the commit of a point."""
        return self._range.good if point == GOOD else self._range.commits[point].id

    def plan(self, point: int) -> ExperimentPlan:
        """The plan of starts in the worktree of this commit, which is made now. Raises InfraError."""
        commit = self.commit(point)
        self._used = [commit, *(each for each in self._used if each != commit)]
        kept = max(_KEPT, self._plan.at_once)
        for each in self._used[kept:]:
            self._remove(each)
        del self._used[kept:]
        directory = self._directory(commit)
        if not directory.is_dir():
            self._note(commit).unlink(missing_ok=True)
        make_worktree(self._range.repository, commit, directory)
        arm = self._plan.arms[Arm.CANDIDATE]
        return replace(
            self._plan,
            arms={Arm.BASELINE: arm, Arm.CANDIDATE: arm},
            services_directory=directory / self._below,
            placeholders={**self._plan.placeholders, "build": str(directory), "commit": commit},
        )

    def build(self, point: int) -> Build | None:
        """What builds this commit in its worktree."""
        if self._build is None:
            return None
        commit = self.commit(point)
        directory = self._directory(commit)
        words = filled(self._build, {"build": str(directory), "commit": commit})
        return words, directory / self._below, self._plan.environment, self._note(commit)

    def remove_all(self) -> None:
        """Remove each worktree below the report directory."""
        for directory in self._root.glob("*/"):
            remove_worktree(self._range.repository, directory)
        shutil.rmtree(self._root, ignore_errors=True)

    def _remove(self, commit: str) -> None:
        remove_worktree(self._range.repository, self._directory(commit))
        self._note(commit).unlink(missing_ok=True)

    @property
    def _root(self) -> Path:
        return self._plan.directory / CHECKOUTS

    def _directory(self, commit: str) -> Path:
        return self._root / commit[:_ID]

    def _note(self, commit: str) -> Path:
        return self._root / f"{commit[:_ID]}.built"

# SPDX-License-Identifier: Apache-2.0
"""One cache saved to a store and restored elsewhere, as a job would: identity, relocation, merge."""

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from ci_doctor.caches.effect import FamilyEffect, Use, cost_of, judge
from ci_doctor.caches.facts import FactReader
from ci_doctor.caches.families import Family, relocate
from ci_doctor.caches.judge import Decision, Relocate, Tiers, Usable, usable
from ci_doctor.caches.targets import read_tiers, tier_of, tiers_in
from ci_doctor.machine.interpreters import interpreter_of
from ci_doctor.store.directory_store import open_store
from ci_doctor.store.manifest import (
    ColdCost,
    Manifest,
    ManifestHeader,
    Origin,
    decode,
)
from ci_doctor.store.objects import StoreLimits
from ci_doctor.store.restore import RestoredTree, RestoreRules, restore_tree
from ci_doctor.store.save import SaveRules, save_tree
from ci_doctor.store.transfer import Deadline

LIMIT_S = 600.0
DAY_MS = 86_400_000


class MovedCache:
    """A family's cache, made in `root` and kept in a directory of packs."""

    def __init__(self, family: Family, store: Path, python: Path) -> None:
        self.family = family
        self.python = python
        self.store = open_store(str(store), {}, timeout_s=LIMIT_S)
        self.saved: Manifest | None = None

    def tiers(self, root: Path, environ: Mapping[str, str], python: Path | None = None) -> Tiers:
        interpreter = interpreter_of([str(python or self.python)], environ, Path("/"))
        return read_tiers(self.family, FactReader(environ, interpreter), root)

    def save(self, root: Path, environ: Mapping[str, str]) -> Manifest:
        tiers = self.tiers(root, environ)
        now = time.time_ns() // 1_000_000
        header = ManifestHeader(
            family=self.family.name,
            hard=tier_of(tiers.hard),
            path=tier_of(tiers.path),
            soft=tier_of(tiers.soft),
            root=str(root),
            created_ms=now,
            expires_ms=now + DAY_MS,
            origin=Origin(tool="benchmark"),
            cold=self._cost(root, 0),
        )
        rules = SaveRules(
            scope="local",
            deadline=Deadline(LIMIT_S),
            exclude=self.family.excludes,
            group=self.family.group_of,
        )
        saved = save_tree(self.store, root, header, rules)
        limits = StoreLimits()
        content = self.store.read(saved.manifest_name, limits.manifest_bytes)
        assert content is not None
        self.saved = decode(content, limits)
        return self.saved

    def decide(
        self, root: Path, environ: Mapping[str, str], python: Path | None = None
    ) -> Decision:
        assert self.saved is not None
        return usable(self.family, tiers_in(self.saved), self.tiers(root, environ, python))

    def restore(self, root: Path, *, relocated: bool = True) -> RestoredTree:
        """`relocated` False restores what no guard would let pass, as a control."""
        assert self.saved is not None
        rules = RestoreRules(
            deadline=Deadline(LIMIT_S),
            rewrite=relocate(self.family, str(root)) if relocated else None,
            merge=self.family.merge,
            markers=self.family.is_marker,
            group=self.family.group_of,
        )
        return restore_tree(self.store, self.saved, root, rules)

    def effect(self, root: Path, since_ns: int) -> FamilyEffect:
        """The proof: what was compiled after `since_ns`, against what it was when it was saved."""
        assert self.saved is not None
        entries = [entry for entry in self.saved.files if self.family.is_compiled(entry.path)]
        read = [
            path
            for entry in self.saved.files
            if (path := root / entry.path).stat().st_atime_ns > since_ns
        ]
        warm = self._cost(root, since_ns)
        use = Use(
            restored=len(entries),
            compiled=warm.compiled if warm else 0,
            warm=warm,
            read=len(read),
        )
        return judge(use, self.saved.cold)

    def _cost(self, root: Path, since_ns: int) -> ColdCost | None:
        times = [
            path.stat().st_mtime_ns
            for path in root.rglob("*")
            if path.is_file() and self.family.is_compiled(path.relative_to(root).as_posix())
        ]
        return cost_of([each for each in times if each > since_ns], [], gpus=0)


def is_guarded(decision: Decision) -> bool:
    return not isinstance(decision, Usable | Relocate)


def environment(venv: Path, versions: list[str]) -> Path:
    """The Python of a venv with real wheels, made on the first run."""
    python = venv / "bin" / "python"
    if not python.is_file():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *versions], check=True)
    return python

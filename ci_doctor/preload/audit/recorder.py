# SPDX-License-Identifier: Apache-2.0
"""Reads source files: notes the imports and thread starts that a walk through the code meets."""

import ast
from collections.abc import Sequence

from ci_doctor.preload.audit.events import (
    Arms,
    Event,
    ImportStatement,
    ModuleLoaded,
    SourceSite,
    ThreadJoin,
    ThreadStart,
)
from ci_doctor.preload.audit.limits import Limits
from ci_doctor.preload.audit.resolver import Resolver
from ci_doctor.preload.audit.starters import Starter, shown_kind
from ci_doctor.preload.audit.targets import targets_of
from ci_doctor.preload.audit.values import InstanceValue, Scope, Value


class Recorder:
    """Events in their order, with the arms of conditions that the walk is in.

    `frames` are the modules whose code is running, the innermost last. `trigger` stands for the
    module if none is.
    """

    def __init__(self, resolver: Resolver, limits: Limits, *, trigger: str, main: str) -> None:
        self.events: list[Event] = []
        self.arms: list[tuple[int, int]] = []
        self.frames: list[str] = []
        self.is_possible = False
        self._resolver = resolver
        self._limits = limits
        self._trigger = trigger
        self._main = main

    @property
    def arms_now(self) -> Arms:
        """The arms as a value."""
        return tuple(self.arms)

    def leave_arms(self, count: int) -> None:
        """Leave the last `count` arms."""
        del self.arms[len(self.arms) - count :]

    def imported(
        self, module: str, site: SourceSite, names: Sequence[str], *, direct: bool
    ) -> None:
        """A statement imports `module`."""
        self.events.append(
            ImportStatement(
                module=module, site=site, arms=self.arms_now, names=tuple(names), direct=direct
            )
        )

    def loaded(self, module: str) -> None:
        """The code of `module` has run."""
        self.events.append(ModuleLoaded(module=module))

    def joined(self, made_by: ast.Call | None) -> None:
        """The thread of that object has ended."""
        if made_by is not None:
            self.events.append(ThreadJoin(made_by=made_by, arms=self.arms_now))

    def started(
        self,
        kind: str,
        starter: Starter,
        itself: Value | None,
        call: ast.Call | None,
        scope: Scope,
    ) -> None:
        """A call starts a thread."""
        targets, text = targets_of(self._resolver, starter, itself, call, scope)
        site = site_of(call, scope)
        if not targets and not starter.of_library:
            self._limits.unknown_targets[site] = None
        made_by = call
        if isinstance(itself, InstanceValue) and itself.call is not None:
            made_by = itself.call
        start = ThreadStart(
            site=site,
            kind=shown_kind(kind),
            made_by=made_by,
            targets=targets,
            target_text=text,
            trigger=self.frames[-1] if self.frames else self._trigger,
            at_import=any(frame != self._main for frame in self.frames),
            arms=self.arms_now,
            is_pool=starter.pool,
            is_of_library=starter.of_library,
            is_possible=self.is_possible,
        )
        self.events.append(start)


def site_of(node: ast.AST | None, scope: Scope) -> SourceSite:
    """Where a node stands."""
    line = getattr(node, "lineno", 0)
    return SourceSite(scope.code.name, scope.code.file, line)

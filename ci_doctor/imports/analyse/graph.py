# SPDX-License-Identifier: Apache-2.0
"""Which module needs which, over all modules loaded in a process, and what each reaches. Pure."""

from collections.abc import Iterable, Iterator, Sequence

from ci_doctor.imports.analyse.groups import groups
from ci_doctor.imports.analyse.history import History, Load
from ci_doctor.imports.record.events import Ask

Need = tuple[str, Ask | None]  # None for a submodule's need of its package


class Graph:
    """The modules whose code ran in this process, numbered; a set of them is the bits of an int.

    Ints, because each module reaches up to thousands of others, and unions must be fast. Modules
    that another process loaded before a fork, or the interpreter before the recorder began, are not
    included: no thread takes a lock for them.

    reach: by module, all that it needs, itself included. group: by module, the index of its group
    in `groups`; the modules of one group need each other. grouped: the modules that are in a group
    with others. unloaded: the modules whose every execution failed.
    """

    def __init__(self, history: History) -> None:
        self.names = list(history.executed)
        self.number: dict[str, int] = {}
        for name in self.names:
            self.number[name] = len(self.number)
        # After all are numbered: a module may need one that was executed later.
        self.needs = [tuple(self._needs(name, history)) for name in self.names]
        self.reach = [0] * len(self.names)
        self.group = [-1] * len(self.names)
        self.groups: list[tuple[str, ...]] = []
        self.grouped = 0
        self._find_groups()
        self.unloaded = 0
        for name, loads in history.executed.items():
            if not any(map(_is_loaded, loads)):
                self.unloaded |= self.bit(name)

    def bit(self, name: str) -> int:
        """The set of this one module; empty if it is not known."""
        index = self.number.get(name)
        if index is None:
            return 0
        return 1 << index

    def bits(self, names: Iterable[str]) -> int:
        """The set of `names`, without those that are not known."""
        result = 0
        for name in names:
            result |= self.bit(name)
        return result

    def reached(self, name: str) -> int:
        """What is loaded once `name` is."""
        index = self.number.get(name)
        if index is None:
            return 0
        return self.reach[index] & ~self.unloaded

    def _needs(self, name: str, history: History) -> Iterator[Need]:
        package = name.rpartition(".")[0]
        requested: set[tuple[str, bool]] = set()
        if package in self.number:
            yield package, None
            requested.add((package, True))
        for ask in history.inside.get(name, ()):
            # A package is needed again by a statement: if the submodule's own import of it is
            # skipped, because another thread has begun it, a statement still waits.
            key = ask.name, ask.how == "importlib"
            # A module that imports itself has its own lock already.
            if ask.name not in self.number or ask.name == name:
                continue
            if key not in requested:
                requested.add(key)
                yield ask.name, ask

    def _numbers(self, needs: Iterable[Need]) -> list[int]:
        return [self.number[name] for name, _ in needs]

    def _find_groups(self) -> None:
        targets = [[self.number[name] for name, _ in needs] for needs in self.needs]
        for members in groups(targets):
            self._add_group(members, targets)

    def _add_group(self, members: list[int], targets: Sequence[Sequence[int]]) -> None:
        """Add one group; `groups` yields those that it needs before it."""
        # The modules of a group need each other, so all of them reach the same.
        reach = 0
        for member in members:
            reach |= 1 << member
            self.group[member] = len(self.groups)
            for target in targets[member]:
                reach |= self.reach[target]
        for member in members:
            self.reach[member] = reach
        names = tuple(self.names[member] for member in members)
        self.groups.append(names)
        if len(names) > 1:
            self.grouped |= self.bits(names)


def _is_loaded(load: Load) -> bool:
    return load.end is None or load.end.status == "loaded"

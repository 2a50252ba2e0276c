# SPDX-License-Identifier: Apache-2.0
"""Which module needs which, over all that was loaded in a process: groups that need each other, and what each reaches. Pure."""

from collections.abc import Iterable, Iterator, Sequence

from ci_doctor.imports.analyse.groups import groups
from ci_doctor.imports.analyse.history import History, Load
from ci_doctor.imports.record.events import Ask

Need = tuple[str, Ask | None]  # None for a submodule's need of its package


class Graph:
    """The modules whose code ran in this process, numbered; sets of them are the bits of an int.

    What another process loaded before a fork, or the interpreter before the recorder began, is not among them: no lock
    is taken for it.
    """

    def __init__(self, history: History) -> None:
        self.number = {name: index for index, name in enumerate(history.executed)}
        self.names = list(self.number)
        self.needs: list[tuple[Need, ...]] = [
            tuple(self._needs(name, history)) for name in self.names
        ]
        self.reach = [0] * len(self.names)
        self.group: list[int] = [-1] * len(self.names)
        self.groups: list[tuple[str, ...]] = []
        targets = [[self.number[name] for name, _ in needs] for needs in self.needs]
        for members in groups(targets):
            self._take(members, targets)
        self.grouped = self.bits(name for group in self.groups if len(group) > 1 for name in group)
        failed = (
            name
            for name, loads in history.executed.items()
            if not any(_is_loaded(load) for load in loads)
        )
        self.unloaded = self.bits(failed)

    def bits(self, names: Iterable[str]) -> int:
        """The set of `names`, without those that are not known."""
        result = 0
        for name in names:
            index = self.number.get(name)
            if index is not None:
                result |= 1 << index
        return result

    def reached(self, name: str) -> int:
        """What is loaded once `name` is."""
        index = self.number.get(name)
        return 0 if index is None else self.reach[index] & ~self.unloaded

    def _needs(self, name: str, history: History) -> Iterator[Need]:
        package = name.rpartition(".")[0]
        if package in self.number:
            yield package, None
        seen = {package} if package in self.number else set()
        for ask in history.inside.get(name, ()):
            # A package is asked for again: where its own import is skipped, because it has begun, a statement waits.
            key = ask.name if ask.how == "importlib" else ask.name + "."
            if ask.name in self.number and ask.name != name and key not in seen:
                seen.add(key)
                yield ask.name, ask

    def _take(self, members: list[int], targets: Sequence[Sequence[int]]) -> None:
        """One group; those that it needs were taken before."""
        reach = 0
        for member in members:
            reach |= 1 << member
            self.group[member] = len(self.groups)
            for target in targets[member]:
                reach |= self.reach[target]
        for member in members:
            self.reach[member] = reach
        self.groups.append(tuple(self.names[member] for member in members))


def _is_loaded(load: Load) -> bool:
    return load.end is None or load.end.status == "loaded"

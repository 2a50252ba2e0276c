# SPDX-License-Identifier: Apache-2.0
"""Reads source files: the modules that an audit follows, parsed once each."""

from collections.abc import Collection

from ci_doctor.preload.audit.module_code import ImportedName, ModuleCode, imports_at_once, parse
from ci_doctor.preload.audit.sources import LocatedModule, ModuleKind, SourceTree


class Library:
    """The source of modules. Functions are followed in those below `followed` only.

    `unread` has the followed modules whose source could not be used, with the reason.
    """

    def __init__(
        self,
        tree: SourceTree,
        followed: Collection[str],
        *,
        stdlib: Collection[str] = frozenset(),
        version: tuple[int, int] = (3, 12),
    ) -> None:
        self.tree = tree
        self.followed = frozenset(followed)
        self.stdlib = frozenset(stdlib)
        self.version = version
        self.unread: dict[str, str] = {}
        self._codes: dict[str, ModuleCode | None] = {}
        self._imports: dict[str, list[ImportedName]] = {}

    def follows(self, name: str) -> bool:
        """Whether the module belongs to the audited code."""
        return name.partition(".")[0] in self.followed

    def find(self, name: str) -> LocatedModule | None:
        """The module, in the audited code or not; None if there is none of that name."""
        return self.tree.find(name)

    def followed_code(self, name: str) -> ModuleCode | None:
        """The code of a module of the audited code, if it has any."""
        return self.code(name) if self.follows(name) else None

    def code(self, name: str) -> ModuleCode | None:
        """The code of any module that is installed as source."""
        if name not in self._codes:
            self._codes[name] = self._parse(name)
        return self._codes[name]

    def imports(self, name: str) -> list[ImportedName]:
        """What importing the module imports in turn, at once; nothing for code not read."""
        if name not in self._imports:
            code = self.code(name)
            self._imports[name] = [] if code is None else imports_at_once(code)
        return self._imports[name]

    @property
    def parsed(self) -> int:
        """The number of modules that were parsed."""
        return sum(code is not None for code in self._codes.values())

    def _parse(self, name: str) -> ModuleCode | None:
        module = self.tree.find(name)
        if module is None:
            return None
        source = self.tree.read(module)
        if source is None:
            if self.follows(name) and module.kind is not ModuleKind.NAMESPACE:
                self.unread[name] = _why_unread(module)
            return None
        tree = parse(source, str(module.file))
        if tree is None:
            if self.follows(name):
                self.unread[name] = "cannot be parsed by the Python of ci-doctor"
            return None
        return ModuleCode(
            name,
            str(module.file),
            tree,
            is_package=module.is_package,
            has_globals=b"global " in source,
        )


def _why_unread(module: LocatedModule) -> str:
    if module.kind is ModuleKind.SOURCE:
        return "cannot be read, or is larger than 4 MiB"
    return str(module.kind)

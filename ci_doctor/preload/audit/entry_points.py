# SPDX-License-Identifier: Apache-2.0
"""Pure. The ways into a package: its scripts, `python -m`, an import, and named modules."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from ci_doctor.preload.audit.installed_package import InstalledPackage
from ci_doctor.preload.audit.library import Library


class EntryPoint(Struct, frozen=True, kw_only=True):
    """Import `module`, then call `attribute` of it, if one is named; `is_main`: as `__main__`."""

    label: str
    module: str
    attribute: str = ""
    is_main: bool = False


def entry_points(
    package: InstalledPackage, library: Library, triggers: Sequence[str] = ()
) -> tuple[EntryPoint, ...]:
    """All of them: `import PACKAGE`, named modules, `python -m PACKAGE`, then its scripts."""
    entries = [EntryPoint(label=f"import {top}", module=top) for top in package.tops]
    for trigger in triggers:
        module, _, attribute = trigger.partition(":")
        label = trigger if attribute else f"import {module}"
        entries.append(EntryPoint(label=label, module=module, attribute=attribute))
    for top in package.tops:
        if "." in top:
            continue
        main = f"{top}.__main__"
        if library.find(main) is not None:
            entries.append(EntryPoint(label=f"python -m {top}", module=main, is_main=True))
    entries += _scripts(package)
    return tuple(entries)


def _scripts(package: InstalledPackage) -> Iterator[EntryPoint]:
    same: set[str] = set()
    for script in package.scripts:
        # `module:object [extra]`
        value = script.value.partition("[")[0].strip()
        if value in same:
            continue
        same.add(value)
        module, _, attribute = value.partition(":")
        yield EntryPoint(label=script.name, module=module.strip(), attribute=attribute.strip())

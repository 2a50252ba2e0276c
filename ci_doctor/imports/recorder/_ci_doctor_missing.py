# SPDX-License-Identifier: Apache-2.0
"""Runs in other interpreters: records which names a thread misses in an incomplete module.

A module that is handed out to a thread too early gets a class of ours, by which each failed read of
an attribute comes here. Reads that succeed stay as fast as C makes them. The class goes once the
module is complete. The discarded object of a module that replaced itself keeps it.
"""

import sys

from _ci_doctor_trace import (  # type: ignore[import-not-found]
    event,
    is_initialising,
    is_ours,
    place,
    record,
    thread,
    unframed,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ModuleType = type(sys)
PLAIN: "Any" = ModuleType
modules: "dict[str, Any]" = sys.modules
watched: "dict[str, Any]" = {}  # the incomplete modules, by name
discarded: "dict[int, tuple[str, Any]]" = {}  # by identity: the name, and the object
missed: "dict[str, set[str]]" = {}  # by module, the names that were read too early
stars: "dict[str, set[str]]" = {}  # by module, the names that a `from m import *` found
recorded: "set[tuple[int, str, str]]" = set()  # thread, module and attribute of what is recorded
when_missed: "list[Any]" = []  # called after each


def instructions(text: str) -> "frozenset[int]":
    """The numbers of the instructions to which `text` is compiled."""
    return frozenset(compile(text, "", "exec").co_code[::2])


# Their numbers differ from version to version.
_PLAIN = instructions("import a\nb\n")
FROM = instructions("from a import b\n") - _PLAIN
STAR = instructions("from a import *\n") - _PLAIN


class WatchedModule(ModuleType):  # type: ignore[misc,valid-type]
    """A module that another thread can see before it is complete."""

    def __getattr__(self, attribute: str) -> "Any":
        try:
            # Again, and this time its error is kept: it is the one that the program would see.
            return ModuleType.__getattribute__(self, attribute)
        except AttributeError:
            note(self, attribute, sys._getframe(1))
            raise


def watch(name: str, module: "Any") -> None:
    """`module`, which is not complete, may be in the hands of a thread that does not load it."""
    if type(module) is not ModuleType:
        return
    if modules.get(name) is module:
        if not is_initialising(module):
            return
        watched[name] = module
    else:
        discarded[id(module)] = name, module
    try:
        module.__class__ = WatchedModule
    except TypeError:
        watched.pop(name, None)


def note(module: "Any", attribute: str, frame: "Any") -> None:
    """This thread has read an attribute that is missing."""
    try:
        name = name_of(module)
        # importlib asks for what may not be there, and a module in a cycle misses its own names.
        if name is None or is_ours(name) or is_importlib(frame):
            return
        # `from a import b` takes the submodule from sys.modules, if the package has no such name.
        instruction = frame.f_code.co_code[frame.f_lasti]
        if name + "." + attribute in modules and instruction in FROM:
            return
        if attribute == "__all__" and instruction in STAR:
            attribute = "*"
            stars[name] = public(module)
        is_replaced = id(module) in discarded and name in modules
        if is_replaced and not has(name, modules[name], attribute):
            return
        key = thread.number, name, attribute
        if key not in recorded:
            recorded.add(key)
            missed.setdefault(name, set()).add(attribute)
            event("missing", name, attribute, *place(frame=frame))
        for function in when_missed:
            function()
    except Exception:  # noqa: BLE001 - the program's own error counts
        pass


def name_of(module: "Any") -> "str | None":
    """The name under which `module` is watched."""
    if id(module) in discarded:
        return discarded[id(module)][0]
    for name, other in watched.copy().items():
        if other is module:
            return name
    return None


def is_importlib(frame: "Any") -> bool:
    """Whether the import system itself has read the attribute."""
    return frame is None or str(frame.f_globals.get("__name__")).startswith(
        ("importlib", "_frozen")
    )


def has(name: str, module: "Any", attribute: str) -> bool:
    """Whether the module that stays has it. A lazy one may import now what the program wants."""
    if attribute == "*":
        return bool(public(module) - stars.pop(name, set()))
    try:
        getattr(module, attribute)
    except Exception:  # noqa: BLE001 - a module's own __getattr__ may raise anything
        return False
    return True


def complete(name: str) -> None:
    """The import of `name` has ended: a name that it still does not have was never missing."""
    module = watched.pop(name)
    if type(module) is WatchedModule:
        module.__class__ = PLAIN
    there = modules.get(name)
    for attribute in missed.pop(name, ()):
        if there is not None and not is_there(name, there, attribute):
            record("absent", name, attribute)


def is_there(name: str, module: "Any", attribute: str) -> bool:
    """Whether a complete module has or may have a name, without making a lazy one import."""
    if attribute == "*":
        return bool(public(module) - stars.pop(name, set()))
    names = getattr(module, "__dict__", {})
    if attribute in names:
        return True
    # It answers for names that it does not hold, and cannot be asked without an import.
    is_lazy = "__getattr__" in names or hasattr(type(module), "__getattr__")
    return is_lazy and not attribute.startswith("__")


def public(module: "Any") -> "set[str]":
    """What `from module import *` takes."""
    names = getattr(module, "__dict__", {})
    return set(names.get("__all__") or [name for name in names if not name.startswith("_")])


for _function in (WatchedModule.__getattr__, note):
    unframed(_function)

# SPDX-License-Identifier: Apache-2.0
"""Runs in other interpreters: records which thread requests, loads and waits for which module.

CPython's C code looks up `_find_and_load` and `_lock_unlock_module` on importlib for each import,
so replacing them covers the import statement. `builtins.__import__` also covers the requests for
modules that are loaded already.

This is on the path of every import of the program: no frame and no allocation more than needed.
"""

import builtins
import sys
from _thread import get_ident
from time import monotonic_ns

import _ci_doctor_hold as hold  # type: ignore[import-not-found]
import _ci_doctor_missing as missing  # type: ignore[import-not-found]
import _ci_doctor_order as order  # type: ignore[import-not-found]
from _ci_doctor_trace import (  # type: ignore[import-not-found]
    SKIPPED,
    absolute,
    arm,
    can_start_threads,
    depth,
    event,
    is_initialising,
    is_ours,
    numbers,
    place,
    process,
    record,
    thread,
    unframed,
    when_threaded,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

bootstrap: "Any" = sys.modules["_frozen_importlib"]  # importlib._bootstrap
modules: "dict[str, Any]" = sys.modules
loaders: "dict[str, int]" = {}  # which thread has executed a module
BUILT_IN = frozenset(sys.builtin_module_names)  # they import nothing, so they are in no race
# A module of another loader comes from a finder that may stand in front of a preload shim's.
PLAIN_LOADERS = frozenset(("_frozen_importlib_external", "zipimport"))
original_import = builtins.__import__
original_find = bootstrap._find_and_load
original_pass = bootstrap._lock_unlock_module
original_create = bootstrap.module_from_spec
original_acquire = bootstrap._ModuleLock.acquire
original_release = bootstrap._ModuleLock.release
original_exec = bootstrap._exec
original_old_load: "Any" = getattr(bootstrap, "_load_backward_compatible", None)
FIRST_THREAD = get_ident()
python_import = bootstrap._gcd_import


def __import__(
    name: str, globals: "Any" = None, locals: "Any" = None, fromlist: "Any" = (), level: int = 0
) -> "Any":
    """Stands for `builtins.__import__`: the import statement."""
    # Called by C code (PyImport_Import), which looks at sys.modules again afterwards.
    if type(fromlist) is list and not fromlist:
        return original_import(name, globals, locals, fromlist, level)
    # A string, not a tuple: the garbage collector tracks tuples, and more of them make it run more.
    key = name + ":" if fromlist else name
    if level:
        key = "%s %d %s" % (key, level, (globals or {}).get("__package__"))
    requested = thread.requested
    if key in requested:
        return original_import(name, globals, locals, fromlist, level)
    requested.add(key)
    full = absolute(name, globals, level)
    handed_out = full if fromlist else full.partition(".")[0]
    if hold.is_on:
        hold.before_statement(handed_out)
    before = modules.get(handed_out)
    by_another = is_initialising(before) and not is_ours(handed_out)
    # The names are for the remedy, and long lists cost time. A thread that imports again what it
    # has loaded itself is in no race.
    names = () if loaders.get(handed_out) == thread.number else tuple(fromlist or ())
    frame = sys._getframe(1)  # the statement's: only C code is between
    ask(handed_out, "statement", names, frame)
    if handed_out != full:
        ask(full, "importlib", names, frame)
    del frame
    waited = thread.waits
    module = original_import(name, globals, locals, fromlist, level)
    if fromlist and "__path__" in getattr(module, "__dict__", ()):
        ask_submodules(full, fromlist, sys._getframe(1))
    if by_another and module is before and thread.waits == waited:
        record_no_wait(handed_out, before)
    return module


def ask_submodules(package: str, names: "Any", frame: "Any") -> None:
    """Record requests for the submodules in a from-list, loaded already or not."""
    for name in names:
        if package + "." + name in modules:
            ask(package + "." + name, "importlib", (), frame)


def ask(name: str, how: str, names: "tuple[str, ...]", frame: "Any" = None) -> None:
    """Record that this thread requests `name`, once for each requesting module and each `how`."""
    requested = thread.requested
    if (
        name in BUILT_IN
        or name + "?" + how in requested
        or (how == "importlib" and name + "?statement" in requested)
    ):
        return
    requested.add(name + "?" + how)
    within = thread.loading[-1][0] if thread.loading else None
    file, line, module = place(SKIPPED, frame)
    event("ask", name, how, file, line, module, names, within)


def _find_and_load(name: str, import_: "Any") -> "Any":
    """Stands for importlib's, once there are threads. Its Python half makes no import statement."""
    if order.current is not None:
        order.note(name)
    if import_ is python_import or name not in modules:
        ask(name, "importlib", ())
    return original_find(name, import_)


def begin(name: str) -> "list[Any]":
    """Record that this thread starts to load `name`, or to wait for the thread that does.

    `acquire` calls it and `release` calls `end`; both return before the module's code runs. A frame of
    ours around each nested import would make CPython map pages of its stack again and again.
    """
    if name in loaders:
        # Loaded anew, because something took it out of `sys.modules`: from where counts again.
        thread.requested.discard(name + "?importlib")
        thread.requested.discard(name + "?statement")
    if not process.is_threaded or name in loaders:
        ask(name, "importlib", ())
    event("begin", name, thread.loading[-1][0] if thread.loading else None)
    entry = [name, None, thread.requested, 0]
    thread.loading.append(entry)
    thread.requested = set()
    return entry


def end(entry: "list[Any]") -> None:
    """Record how the load ended for which `begin` returned `entry`."""
    name, created, requested, _ = entry
    thread.loading.pop()
    thread.requested = requested
    there = modules.get(name)
    if created is None:
        status = "missing" if there is None else "found"
    elif name not in modules:
        status = "failed"
    else:
        status = "loaded"
        loaders[name] = thread.number
        loader = type(getattr(getattr(created, "__spec__", None), "loader", None))
        if loader.__module__ not in PLAIN_LOADERS:
            record("loader", name, loader.__module__)
    event("end", name, status, status == "loaded" and there is not created)
    if created is not None and name in missing.watched:
        missing.complete(name)
    if builtins.__import__ is original_import and can_start_threads(created):
        watch_for_threads()
    order.watch(name, created)


def module_from_spec(spec: "Any") -> "Any":
    """Stands for importlib's: the thread that calls it is the one that executes the module."""
    module = original_create(spec)
    for entry in reversed(thread.loading):
        if entry[0] == spec.name:
            entry[1] = module
            if hold.is_on:
                hold.before_exec(spec)
            break
    return module


def _lock_unlock_module(name: str) -> None:
    """Stands for importlib's, which C calls before it hands out a module not yet initialised."""
    # _find_and_load calls it too, and takes the module from sys.modules afterwards.
    if sys._getframe(1).f_code is not original_find.__code__:
        # First of all: the other thread may finish and replace the module at any moment.
        thread.handed_out = modules.get(name)
    try:
        original_pass(name)
    finally:
        thread.handed_out = None


def acquire(self: "Any") -> "Any":
    """Stands for the module lock's own."""
    entry = begin(self.name) if self.name not in modules else None
    if hold.is_on:
        hold.before_acquire(self.name, thread.handed_out is not None)
    owner = self.owner
    try:
        result = (
            original_acquire(self) if owner is None or owner == get_ident() else wait(self, owner)
        )
    except BaseException:
        if entry is not None:
            end(entry)
        raise
    if entry is not None:
        entry[3] = depth(self)
    if hold.is_on:
        thread.held.append(self.name)
        hold.after_acquire(self.name)
    return result


def wait(self: "Any", owner: int) -> "Any":
    """Acquire a module lock that another thread holds, and record how long it took."""
    process.write()
    name, began = self.name, monotonic_ns()
    try:
        result = original_acquire(self)
    except bootstrap._DeadlockError:
        # Only _lock_unlock_module goes on without the lock. Elsewhere the import fails by this.
        raised = sys._getframe(2).f_code is not original_pass.__code__
        missing.watch(name, modules.get(name))
        held = tuple(entry[0] for entry in thread.loading)
        event("deadlock", name, numbers.get(owner), held, raised)
        if not raised:
            hold.after_deadlock(name)
        raise
    record_wait(name, numbers.get(owner), monotonic_ns() - began, thread.handed_out)
    if hold.is_on:
        hold.after_wait()
    return result


def record_wait(name: str, owner: "int | None", waited_ns: int, handed_out: "Any") -> None:
    """Record a wait for `name`; `handed_out` is what C returns after it, None if importlib looks."""
    thread.waits += 1
    after = modules.get(name)
    outcome = "same"
    if handed_out is not None and after is not handed_out:
        outcome = "removed" if after is None else "replaced"
        missing.watch(name, handed_out)
    event("wait", name, owner, waited_ns, outcome)


def record_no_wait(name: str, handed_out: "Any") -> None:
    """Record that this thread received `handed_out`, which another one may have replaced.

    That one finished after CPython took the module and before it looked at the lock.
    """
    if modules.get(name) is not handed_out:
        record_wait(name, None, 0, handed_out)


def release(self: "Any") -> None:
    """Stands for the module lock's own."""
    loading = thread.loading
    try:
        if loading and loading[-1][0] == self.name and loading[-1][3] == depth(self):
            end(loading[-1])
    finally:  # a signal handler may raise in between
        original_release(self)
    if hold.is_on:
        if self.name in thread.held:  # it may have been locked before the recorder began
            thread.held.remove(self.name)
        hold.after_release(self.name)


def _exec(spec: "Any", module: "Any") -> "Any":
    """Stands for importlib's, which `importlib.reload` calls, and runpy of some versions."""
    event("reload", spec.name, *place())
    return original_exec(spec, module)


def _load_backward_compatible(spec: "Any") -> "Any":
    """Stands for importlib's, for loaders without `exec_module`: zipimport's up to Python 3.9."""
    entry = next((entry for entry in reversed(thread.loading) if entry[0] == spec.name), None)
    if entry is None:
        return original_old_load(spec)
    entry[1] = spec
    module = original_old_load(spec)
    if entry[1] is spec:
        entry[1] = modules.get(spec.name)
    return module


def zip_exec(code: "Any", namespace: "Any") -> None:
    """Stands for `exec` in a zipimport that has no `exec_module`: the module is in sys.modules."""
    if thread.loading and thread.loading[-1][0] == namespace.get("__name__"):
        thread.loading[-1][1] = modules.get(namespace["__name__"])
    exec(code, namespace)


def import_of_any_thread(
    name: str, globals: "Any" = None, locals: "Any" = None, fromlist: "Any" = (), level: int = 0
) -> "Any":
    """Stands for `builtins.__import__` as long as no other thread has imported."""
    if get_ident() == FIRST_THREAD:
        return original_import(name, globals, locals, fromlist, level)
    process.begin_threads()
    return __import__(name, globals, locals, fromlist, level)


def watch_for_threads() -> None:
    """Notice the first import of a thread that C code has started."""
    builtins.__import__ = import_of_any_thread
    bootstrap._find_and_load = _find_and_load


def watch_statements() -> None:
    """Record import statements and `import_module` too, from now on."""
    builtins.__import__ = __import__
    bootstrap._find_and_load = _find_and_load


for _function in (__import__, import_of_any_thread, _find_and_load, wait):
    unframed(_function)
bootstrap._lock_unlock_module = unframed(_lock_unlock_module)
bootstrap.module_from_spec = unframed(module_from_spec)
bootstrap._ModuleLock.acquire = unframed(acquire)
bootstrap._ModuleLock.release = unframed(release)
# Modules that are executed in another way than most: reloaded ones, and those of archives up to Python 3.9.
bootstrap._exec = unframed(_exec)
if original_old_load is not None:
    bootstrap._load_backward_compatible = unframed(_load_backward_compatible)
if "zipimport" in modules and not hasattr(modules["zipimport"].zipimporter, "exec_module"):
    modules["zipimport"].exec = unframed(zip_exec)
if process.is_threaded:
    watch_statements()
else:
    when_threaded.append(watch_statements)
for _name in tuple(modules):
    order.watch(_name, modules[_name])
arm()

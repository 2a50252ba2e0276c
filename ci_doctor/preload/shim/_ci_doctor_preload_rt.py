# SPDX-License-Identifier: Apache-2.0
# managed-by: ci-doctor preload
"""Acts on other interpreters: preloads the modules of a rule before its trigger exists.

It preloads in the loader's `create_module`: only a real load calls it (`find_spec` does not), the
global import lock is free, and the trigger is not yet in sys.modules. Nothing that a preload raises
gets out of it, except what a signal raises (Ctrl-C). The variables are those of docs/preload.md.
"""

import _imp  # the import system's own lock: the only one that it repairs in a forked child
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The exceptions of failed preloads, by the module whose real import will raise them again.
failures: "dict[str, BaseException]" = {}
# The triggers whose preloads are running: a preloaded module may itself import its trigger.
under_way: "dict[str, object]" = {}


def spec_for(rules: "Any", name: str, path: "Any", target: "Any") -> "Any":
    """The spec of the finders after ours for `name`, with its loader set to preload, or None."""
    if os.environ.get("CI_DOCTOR_PRELOAD") == "0":
        return None
    spec = spec_after(rules, name, path, target)
    loader = getattr(spec, "loader", None)
    # A class (built-in and frozen modules) is shared; namespace packages have no loader.
    if loader is not None and not isinstance(loader, type):
        _imp.acquire_lock()
        try:
            own = vars(loader)
            watched = getattr(own.get("create_module") or own.get("load_module"), "__self__", None)
            if not isinstance(watched, Watched):
                watched = Watched(rules, loader)
            watched.triggers.add(name)
        finally:
            _imp.release_lock()
    return spec


def spec_after(rules: "Any", name: str, path: "Any", target: "Any") -> "Any":
    """What the import system would get from the finders behind ours."""
    finders = list(sys.meta_path)
    while not is_ours(finders.pop(0), rules):
        pass
    # An old finder has no find_spec: that raises, and the import system itself must ask it.
    for finder in finders:
        spec = finder.find_spec(name, path, target)
        if spec is not None:
            return spec
    return None


class Watched:
    """One loader that preloads when it creates one of `triggers`, or when runpy takes its code.

    The methods stand on the loader itself, which may serve many modules, until the last trigger.
    """

    def __init__(self, rules: "Any", loader: "Any") -> None:
        self.rules = rules
        self.loader = loader
        self.triggers: set[str] = set()
        self.instead: dict[str, Any] = {}  # what to do, once, in place of executing a module
        in_two = hasattr(loader, "exec_module")  # zipimport of 3.8 and 3.9 does both in one
        methods = ("create_module", "exec_module") if in_two else ("load_module",)
        own = vars(loader)
        names = [name for name in (*methods, "get_code") if hasattr(loader, name)]
        self.originals = {name: getattr(loader, name) for name in names}
        self.before = {name: own[name] for name in names if name in own}
        own.update({name: getattr(self, name) for name in names})

    def done(self, trigger: str) -> None:
        """Forget `trigger`; with the last one, restore the loader's own methods."""
        _imp.acquire_lock()
        try:
            self.triggers.discard(trigger)
            if not self.triggers and not self.instead:
                own = vars(self.loader)
                for name in self.originals:
                    if getattr(own.get(name), "__self__", None) is self:  # nobody has replaced ours
                        del own[name]
                        own.update({name: self.before[name]} if name in self.before else {})
        finally:
            _imp.release_lock()

    def preload(self, trigger: str) -> "Any":
        """Preload; returns the trigger if a preload has imported it, and the failure to raise."""
        absent = trigger not in sys.modules
        preload_all(self.rules, trigger)
        return sys.modules.get(trigger) if absent else None, failures.pop(trigger, None)

    def create_module(self, spec: "Any") -> "Any":
        """Preload, then create the trigger."""
        trigger, create = spec.name, self.originals["create_module"]
        if trigger not in self.triggers:
            return create(spec)
        loaded, first = self.preload(trigger)
        if loaded is not None:
            self.instead[trigger] = lambda _module: None  # it must not be executed again
        elif first is not None:
            loaded = retell(first, create, spec)
            execute = self.originals["exec_module"]
            self.instead[trigger] = lambda module: retell(first, execute, module)
        self.done(trigger)
        return create(spec) if trigger not in self.instead else loaded

    def exec_module(self, module: "Any") -> None:
        """Execute `module`, or do what replaces that."""
        spec = getattr(module, "__spec__", None) or module
        trigger: str = getattr(spec, "name", getattr(module, "__name__", ""))
        execute = self.instead.pop(trigger, self.originals["exec_module"])
        self.done(trigger)
        execute(module)

    def load_module(self, name: str) -> "Any":
        """Preload, then create and execute the trigger."""
        load = self.originals["load_module"]
        loaded, first = self.preload(name) if name in self.triggers else (None, None)
        self.done(name)
        return loaded or (load(name) if first is None else retell(first, load, name))

    def get_code(self, *names: "Any") -> "Any":
        """The code of a module: `python -m NAME`, and its spawned children, do not create one."""
        name = names[0] if len(names) == 1 else None
        if name in self.triggers and sys._getframe(1).f_globals.get("__name__") == "runpy":  # noqa: SLF001
            preload_all(self.rules, name)
            self.done(name)
        return self.originals["get_code"](*names)


def preload_all(rules: "Any", trigger: str) -> None:
    """Apply the rule of `trigger` once. Raises only what a signal raised; then it still applies."""
    mine = object()
    if under_way.setdefault(trigger, mine) is not mine:
        return
    try:
        for module, attributes in rules.get(trigger, ()):
            trace(f"{trigger}: preloading {module}")
            started = time.perf_counter()
            stop_watching = watch_for_hang()
            try:
                done = preload(rules, module, attributes)
            finally:
                stop_watching()
            trace(f"{trigger}: {done} in {time.perf_counter() - started:.3f} s")
        rules.pop(trigger, None)
    finally:
        del under_way[trigger]
    if not rules:
        retire(rules)


def retire(rules: "Any") -> None:
    """Remove the finder from sys.meta_path, by a new list: a thread may be in the old one."""
    if type(sys.meta_path) is list:  # another kind may do more than hold finders
        sys.meta_path = [finder for finder in list(sys.meta_path) if not is_ours(finder, rules)]


def is_ours(finder: "Any", rules: "Any") -> bool:
    """Whether `finder` is the module with these rules; touches no attribute of other objects."""
    return type(finder) is type(sys) and vars(finder).get("RULES") is rules


def preload(rules: "Any", module: str, attributes: "Any") -> str:
    """Import `module` and touch its `attributes`; raises only what a signal raised."""
    before = handler_codes(), sys.exc_info()[1]
    try:
        __import__(module)
        for attribute in attributes:
            # Not of what __import__ returns: the module may have replaced itself.
            getattr(sys.modules[module], attribute)
    except BaseException as error:  # a module may even call sys.exit()
        if raised_by_signal(error, *before):
            raise
        remember(rules, module, error, before[1])
        return f"failed to preload {module} ({described(error)})"
    return f"preloaded {module}" + (f" ({', '.join(attributes)})" if attributes else "")


def remember(rules: "Any", module: str, error: BaseException, handled: "Any") -> None:
    """Keep `error` for the real import of `module`, its causes for the modules that raised them."""
    parts = module.split(".")
    failed: list[Any] = [(".".join(parts[:end]), error) for end in range(1, len(parts) + 1)]
    for cause, entries in behind(error, handled):
        frames = [entry.tb_frame for entry in entries]
        running = [frame for frame in frames if frame.f_code.co_name == "<module>"]
        failed += [(frame.f_globals.get("__name__"), cause) for frame in running]
    for name, cause in failed:
        if isinstance(name, str) and name not in sys.modules and name not in failures:
            failures[name] = cause
            rules.setdefault(name, ())


def retell(first: BaseException, attempt: "Any", argument: "Any") -> "Any":
    """The result of the real import; if that fails too, raise what the preload raised.

    The second error misleads (torch: "partially initialized module"), but the import may succeed.
    """
    before = handler_codes(), sys.exc_info()[1]
    try:
        return attempt(argument)
    except BaseException as second:
        if raised_by_signal(second, *before):
            raise
        trace(f"retelling {described(first)} instead of {described(second)}")
    raise first


def behind(error: BaseException, handled: "Any") -> "list[tuple[BaseException, list[Any]]]":
    """`error` and its causes up to `handled` (the program's own), each with traceback entries."""
    chain: list[tuple[BaseException, list[Any]]] = []
    waiting: list[BaseException | None] = [error]
    for one in waiting:  # which grows
        if one is None or one is handled or any(one is other for other, _ in chain):
            continue
        entries, entry = [], one.__traceback__
        while entry is not None:
            entries.append(entry)
            entry = entry.tb_next
        chain.append((one, entries))
        waiting += [one.__cause__, one.__context__]
    return chain


def raised_by_signal(error: BaseException, handlers: "set[Any]", handled: "Any") -> bool:
    """Whether a signal caused `error`: an interrupt without a `raise`, or anything of a handler."""
    handlers = handlers | handler_codes()  # those from before, too: one may remove itself
    for one, entries in behind(error, handled):
        if any(entry.tb_frame.f_code in handlers for entry in entries):
            return True
        if isinstance(one, KeyboardInterrupt) and entries:
            last = entries[-1]
            try:
                raise KeyError  # noqa: TRY301 - shows which instruction a `raise` is in this version
            except KeyError as known:
                here = known.__traceback__
                raising = here.tb_frame.f_code.co_code[here.tb_lasti] if here else None
            # asyncio's own handler only notes the signal; the interrupt is raised later.
            is_late = last.tb_frame.f_globals.get("__name__") == "asyncio.runners"
            if is_late or last.tb_frame.f_code.co_code[last.tb_lasti] != raising:
                return True
    return False


def handler_codes() -> "set[Any]":
    """The code of the functions that are installed for signals now."""
    signal = __import__("_signal")  # built in: no module of the program can take its place
    codes: set[Any] = set()
    for number in signal.valid_signals():
        try:
            handler: Any = signal.getsignal(number)
            handler = getattr(handler, "func", handler)  # functools.partial
            codes.add(getattr(handler, "__code__", None) or handler.__call__.__code__)
        except Exception:  # noqa: BLE001, S112 - SIG_DFL, a built-in function
            continue
    return codes


def watch_for_hang() -> "Any":
    """Dump all stacks after CI_DOCTOR_PRELOAD_TIMEOUT; returns the function that calls this off."""
    seconds = os.environ.get("CI_DOCTOR_PRELOAD_TIMEOUT")
    try:
        if seconds:
            limit = float(seconds)
            thread = __import__("_thread")
            is_over = thread.allocate_lock()
            is_over.acquire()
            # Not faulthandler's own thread: it crashes on a frame that just changes (3.11).
            dump = __import__("faulthandler").dump_traceback
            thread.start_new_thread(lambda: is_over.acquire(True, limit) or dump(2), ())
            return is_over.release
    except Exception as error:  # noqa: BLE001 - a wrong number must not end the program
        trace(f"CI_DOCTOR_PRELOAD_TIMEOUT={seconds}: {described(error)}")
    return lambda: None


def described(error: BaseException) -> str:
    """`Type: message`, or the type alone if that fails."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - a broken __str__ must not end the program
        return type(error).__name__


def trace(text: str) -> None:
    """Write one line to the destination of CI_DOCTOR_PRELOAD_TRACE. Never raises."""
    where = os.environ.get("CI_DOCTOR_PRELOAD_TRACE", "0")
    if where in ("", "0"):
        return
    try:
        with open(2 if where == "1" else where, "ab", 0, closefd=where != "1") as file:
            file.write(f"ci-doctor preload: [{os.getpid()}] {text}\n".encode("utf-8", "replace"))
    except Exception:  # noqa: BLE001, S110 - a full disk must not end the program
        pass

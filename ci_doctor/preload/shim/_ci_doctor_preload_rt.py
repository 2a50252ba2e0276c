# SPDX-License-Identifier: Apache-2.0
# managed-by: ci-doctor preload
"""Preloads the modules of a rule at the last moment before its trigger exists; imported when a trigger is looked for.

The moment is the loader's `create_module`: only a real load calls it (`importlib.util.find_spec` does not), the global
import lock is free, and the trigger is not yet in sys.modules. Nothing that a preload raises gets out of it, but what a
signal raises (Ctrl-C, a handler of the program's) does. CI_DOCTOR_PRELOAD_TRACE=1 (stderr) or =FILE tells what was done;
CI_DOCTOR_PRELOAD_TIMEOUT=SECONDS dumps all stacks to stderr when one preload takes longer, and lets it go on.
"""

import _imp  # the import system's own lock: the only one that it makes whole again in a forked child
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The exceptions of failed preloads, by the module whose real import will retell them.
failures: "dict[str, BaseException]" = {}
# The triggers whose preloads are going on: a preloaded module may itself import its trigger.
under_way: "dict[str, object]" = {}


def spec_for(rules: "Any", name: str, path: "Any", target: "Any") -> "Any":
    """The spec that the finders after ours give for `name`, with its loader set to preload, or None."""
    if os.environ.get("CI_DOCTOR_PRELOAD") == "0":
        return None
    spec = spec_after(rules, name, path, target)
    loader = getattr(spec, "loader", None)
    # A class (built-in and frozen modules) is shared by all modules; namespace packages have no loader.
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
    """What the import system would get from the finders behind ours: those before it have had their turn."""
    finders = list(sys.meta_path)
    while not is_ours(finders.pop(0), rules):
        pass
    for finder in (
        finders
    ):  # an old one has no find_spec: that raises, and the import system itself must ask it
        spec = finder.find_spec(name, path, target)
        if spec is not None:
            return spec
    return None


class Watched:
    """One loader that preloads when it creates one of `triggers`, or when runpy takes the code of one.

    The methods are put on the loader itself, so its type stays as it is, and taken off again with the last trigger; one
    loader may serve many modules (an archive's, pytest's).
    """

    def __init__(self, rules: "Any", loader: "Any") -> None:
        self.rules = rules
        self.loader = loader
        self.triggers: set[str] = set()
        self.instead: dict[str, Any] = {}  # what to do, once, in the place of executing a module
        # zipimport of 3.8 and 3.9 creates and executes in one.
        methods = (
            ("create_module", "exec_module") if hasattr(loader, "exec_module") else ("load_module",)
        )
        own = vars(loader)
        names = [name for name in (*methods, "get_code") if hasattr(loader, name)]
        self.originals = {name: getattr(loader, name) for name in names}
        self.before = {name: own[name] for name in names if name in own}
        own.update({name: getattr(self, name) for name in names})

    def done(self, trigger: str) -> None:
        """Forget `trigger`; with the last one, put the loader's own methods back."""
        _imp.acquire_lock()
        try:
            self.triggers.discard(trigger)
            if not self.triggers and not self.instead:
                own = vars(self.loader)
                for name in self.originals:
                    if (
                        getattr(own.get(name), "__self__", None) is self
                    ):  # nobody has put another over it
                        del own[name]
                        own.update({name: self.before[name]} if name in self.before else {})
        finally:
            _imp.release_lock()

    def preload(self, trigger: str) -> "Any":
        """Preload; returns the trigger if a preloaded module has imported it, and the failure that is to be retold."""
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
            self.instead[trigger] = lambda module: retell(
                first, self.originals["exec_module"], module
            )
        self.done(trigger)
        return create(spec) if trigger not in self.instead else loaded

    def exec_module(self, module: "Any") -> None:
        """Execute `module`, or do what stands in the place of that."""
        trigger: str = getattr(
            getattr(module, "__spec__", None) or module, "name", getattr(module, "__name__", "")
        )
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
        """The code of a module; `python -m NAME`, and the spawned children of such a process, do not create it."""
        if (
            len(names) == 1
            and names[0] in self.triggers
            and sys._getframe(1).f_globals.get("__name__") == "runpy"  # noqa: SLF001
        ):
            preload_all(self.rules, names[0])
            self.done(names[0])
        return self.originals["get_code"](*names)


def preload_all(rules: "Any", trigger: str) -> None:
    """Do the rule of `trigger` if it was not done yet. Raises only what a signal raised; then the rule is still to do."""
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
    """Take the finder off sys.meta_path, by a new list: a thread that goes through the old one must not miss a finder."""
    if type(sys.meta_path) is list:  # another kind may do more than hold finders
        sys.meta_path = [finder for finder in list(sys.meta_path) if not is_ours(finder, rules)]


def is_ours(finder: "Any", rules: "Any") -> bool:
    """Whether `finder` is the module with these rules; asks nothing of other objects."""
    return type(finder) is type(sys) and vars(finder).get("RULES") is rules


def preload(rules: "Any", module: str, attributes: "Any") -> str:
    """Import `module` and touch its `attributes`; says what came of it. Raises only what a signal raised."""
    before = handler_codes(), sys.exc_info()[1]
    try:
        __import__(module)
        for attribute in attributes:
            getattr(
                sys.modules[module], attribute
            )  # not what __import__ returns: the module may have replaced itself
    except (
        BaseException
    ) as error:  # a module may even call sys.exit(): the program decides, not the preload
        if raised_by_signal(error, *before):
            raise
        remember(rules, module, error, before[1])
        return f"failed to preload {module} ({described(error)})"
    return f"preloaded {module}" + (f" ({', '.join(attributes)})" if attributes else "")


def remember(
    rules: "Any", module: str, error: BaseException, handled: "BaseException | None"
) -> None:
    """Keep `error` to be retold by the real import of `module`, and those behind it by the modules that raised them."""
    parts = module.split(".")
    failed: list[tuple[Any, BaseException]] = [
        (".".join(parts[: end + 1]), error) for end in range(len(parts))
    ]
    for cause, entries in behind(error, handled):
        running = [
            entry.tb_frame for entry in entries if entry.tb_frame.f_code.co_name == "<module>"
        ]
        failed += [(frame.f_globals.get("__name__"), cause) for frame in running]
    for name, cause in failed:
        if isinstance(name, str) and name not in sys.modules and name not in failures:
            failures[name] = cause
            rules.setdefault(name, ())


def retell(first: BaseException, attempt: "Any", argument: "Any") -> "Any":
    """The result of the real import; where that fails too, raise what the preload saw.

    What a first failure left behind makes a second error misleading (torch: "partially initialized module"). The real
    import is tried all the same: it may have what the preload lacked, and then must work as it does without the shim.
    """
    before = handler_codes(), sys.exc_info()[1]
    try:
        return attempt(argument)
    except BaseException as second:
        if raised_by_signal(second, *before):
            raise
        trace(f"retelling {described(first)} instead of {described(second)}")
    raise first


def behind(
    error: BaseException, handled: "BaseException | None"
) -> "list[tuple[BaseException, list[Any]]]":
    """`error` and the exceptions that led to it, each with the traceback entries that it went through, outermost first.

    Not `handled`, which the program itself was handling when it came to the preload.
    """
    found: list[tuple[BaseException, list[Any]]] = []
    waiting: list[BaseException | None] = [error]
    for one in waiting:  # which grows
        if one is not None and one is not handled and not any(one is known for known, _ in found):
            entries, entry = [], one.__traceback__
            while entry is not None:
                entries.append(entry)
                entry = entry.tb_next
            found.append((one, entries))
            waiting += [one.__cause__, one.__context__]
    return found


def raised_by_signal(
    error: BaseException, handlers: "set[Any]", handled: "BaseException | None"
) -> bool:
    """Whether a signal stands behind `error`: an interrupt that no `raise` made, or anything out of a signal's handler.

    `handlers` is the code of those that were installed before: one may take itself off. `handled` as in `behind`.
    """
    handlers = handlers | handler_codes()
    for one, entries in behind(error, handled):
        if any(entry.tb_frame.f_code in handlers for entry in entries):
            return True
        if isinstance(one, KeyboardInterrupt) and entries:
            try:
                raise KeyError  # noqa: TRY301
            except KeyError as known:
                by_statement = instruction(entries[-1]) == instruction(known.__traceback__)
            # asyncio's own handler only notes the signal; the interrupt is raised later.
            if (
                not by_statement
                or entries[-1].tb_frame.f_globals.get("__name__") == "asyncio.runners"
            ):
                return True
    return False


def instruction(entry: "Any") -> int:
    """The number of the instruction at which an exception passed; each version has its own numbers."""
    return int(entry.tb_frame.f_code.co_code[entry.tb_lasti])


def handler_codes() -> "set[Any]":
    """The code of the functions that are installed for signals now."""
    signal = __import__("_signal")  # built in: no module of the program's can take its place
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
    """Dump all stacks when CI_DOCTOR_PRELOAD_TIMEOUT has passed; returns the function that calls this off."""
    seconds = os.environ.get("CI_DOCTOR_PRELOAD_TIMEOUT")
    try:
        if seconds:
            import faulthandler

            faulthandler.dump_traceback_later(float(seconds), file=2)
            return faulthandler.cancel_dump_traceback_later
    except Exception as error:  # noqa: BLE001 - a wrong number must not end the program
        trace(f"CI_DOCTOR_PRELOAD_TIMEOUT={seconds}: {described(error)}")
    return lambda: None


def described(error: BaseException) -> str:
    """`Type: message`, or the type alone where that fails."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - a broken __str__ must not end the program
        return type(error).__name__


def trace(text: str) -> None:
    """Write one line to where CI_DOCTOR_PRELOAD_TRACE says. Never raises."""
    where = os.environ.get("CI_DOCTOR_PRELOAD_TRACE", "0")
    if where in ("", "0"):
        return
    try:
        with open(2 if where == "1" else where, "ab", 0, closefd=where != "1") as file:
            file.write(f"ci-doctor preload: [{os.getpid()}] {text}\n".encode("utf-8", "replace"))
    except Exception:  # noqa: BLE001, S110 - a full disk must not end the program
        pass

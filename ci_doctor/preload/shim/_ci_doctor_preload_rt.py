# SPDX-License-Identifier: Apache-2.0
# managed-by: ci-doctor preload
"""Preloads the modules of a rule at the last moment before its trigger exists; imported when a trigger is looked for.

The moment is the loader's `create_module`: only a real load calls it (`importlib.util.find_spec` does not), the global
import lock is free, and the trigger is not yet in sys.modules. A preload never raises, except KeyboardInterrupt.
CI_DOCTOR_PRELOAD_TRACE=1 (stderr) or =FILE tells what was done; CI_DOCTOR_PRELOAD_TIMEOUT=SECONDS dumps all stacks to
stderr when one preload takes longer, and lets it go on, because an import cannot be stopped safely.
"""

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The exceptions of failed preloads, by the module whose real import will retell them.
failures: "dict[str, BaseException]" = {}


def spec_for(finder: "Any", name: str, path: "Any", target: "Any") -> "Any":
    """The spec that the finders after `finder` give for `name`, with its loader set to preload, or None."""
    if os.environ.get("CI_DOCTOR_PRELOAD") == "0":
        return None
    spec = spec_after(finder, name, path, target)
    loader = getattr(spec, "loader", None)
    # A class (built-in and frozen modules) is shared by all modules; namespace packages have no loader.
    if not isinstance(loader, type) and hasattr(loader, "create_module") and hasattr(loader, "exec_module"):
        preload_on_creation(finder, name, loader)
    return spec


def spec_after(finder: "Any", name: str, path: "Any", target: "Any") -> "Any":
    """What the import system would get from the finders behind `finder`: those before it have had their turn."""
    finders = list(sys.meta_path)
    for other in finders[finders.index(finder) + 1 :]:
        if not hasattr(other, "find_spec"):  # an old one, which the import system itself must ask
            return None
        spec = other.find_spec(name, path, target)
        if spec is not None:
            return spec
    return None


def preload_on_creation(finder: "Any", name: str, loader: "Any") -> None:
    """Make this one loader preload, once, when it creates the module `name` or when runpy takes its code."""
    create = loader.create_module
    read_code = getattr(loader, "get_code", None)

    def create_module(spec: "Any") -> "Any":
        if spec.name != name:  # a zipimporter serves all modules of its archive
            return create(spec)
        undo()
        absent = name not in sys.modules
        preload_all(finder, name)
        loaded = sys.modules.get(name)
        if absent and loaded is not None:  # a preloaded module imports the trigger: it must not be executed again
            replace_once(loader, loaded, execute_nothing)
            return loaded
        first = failures.pop(name, None)
        if first is None:
            return create(spec)
        module = retell(first, create, spec)
        execute = loader.exec_module
        replace_once(loader, name, lambda module: retell(first, execute, module))
        return module

    def get_code(*names: "Any") -> "Any":
        # `python -m NAME`, and the spawned children of such a process, execute the code without creating the module.
        if names == (name,) and sys._getframe(1).f_globals.get("__name__") == "runpy":  # noqa: SLF001
            undo()
            preload_all(finder, name)
        return read_code(*names)  # type: ignore[misc]

    undo = replace(loader, create_module=create_module, **({"get_code": get_code} if read_code else {}))


def replace_once(loader: "Any", expected: "Any", execute_instead: "Any") -> None:
    """Replace `loader.exec_module` for the next execution of `expected`, a module or a module's name."""
    execute = loader.exec_module

    def exec_module(module: "Any") -> None:
        if module is expected or getattr(module, "__name__", None) == expected:
            undo()
            execute_instead(module)
        else:
            execute(module)

    undo = replace(loader, exec_module=exec_module)


def execute_nothing(module: "Any") -> None:
    """Stands for `exec_module` where the module was executed already."""


def replace(loader: "Any", **methods: "Any") -> "Any":
    """Put `methods` on this one loader; returns the function that takes them off again."""
    own = vars(loader)
    before = {name: own[name] for name in methods if name in own}
    own.update(methods)

    def undo() -> None:
        for name in methods:
            own.pop(name, None)
        own.update(before)

    return undo


def preload_all(finder: "Any", trigger: str) -> None:
    """Do the rule of `trigger` if it was not done yet. Raises only KeyboardInterrupt."""
    for module, attributes in finder.RULES.pop(trigger, ()):
        trace(f"{trigger}: preloading {module}")
        started = time.perf_counter()
        stop_watching = watch_for_hang()
        try:
            done = preload(finder, module, attributes)
        finally:
            stop_watching()
        trace(f"{trigger}: {done} in {time.perf_counter() - started:.3f} s")


def preload(finder: "Any", module: str, attributes: "Any") -> str:
    """Import `module` and touch its `attributes`; says what came of it. Raises only KeyboardInterrupt."""
    try:
        __import__(module)
        # Not what __import__ returns: the module may have replaced itself.
        for attribute in attributes:
            getattr(sys.modules[module], attribute)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a module may even call sys.exit(): the program decides, not the preload
        parts = module.split(".")
        names = [".".join(parts[: end + 1]) for end in range(len(parts))]
        absent = [name for name in names if name not in sys.modules]
        if absent:
            failures[absent[0]] = error
            finder.RULES.setdefault(absent[0], ())
        return f"failed to preload {module} ({described(error)})"
    return f"preloaded {module}" + (f" ({', '.join(attributes)})" if attributes else "")


def retell(first: BaseException, attempt: "Any", argument: "Any") -> "Any":
    """The result of the real import; where that fails too, raise what the preload saw.

    What a first failure left behind makes a second error misleading (torch: "partially initialized module"). The real
    import is tried all the same: it may have what the preload lacked, and then must work as it does without the shim.
    """
    try:
        return attempt(argument)
    except KeyboardInterrupt:
        raise
    except BaseException as second:  # noqa: BLE001 - as in `preload`
        trace(f"retelling {described(first)} instead of {described(second)}")
    raise first


def watch_for_hang() -> "Any":
    """Dump all stacks when CI_DOCTOR_PRELOAD_TIMEOUT has passed; returns the function that calls this off."""
    seconds = os.environ.get("CI_DOCTOR_PRELOAD_TIMEOUT")
    if seconds:
        try:
            import faulthandler

            faulthandler.dump_traceback_later(float(seconds), file=2)
        except Exception as error:  # noqa: BLE001 - a wrong number must not end the program
            trace(f"CI_DOCTOR_PRELOAD_TIMEOUT={seconds}: {described(error)}")
        else:
            return faulthandler.cancel_dump_traceback_later
    return lambda: None


def described(error: BaseException) -> str:
    """`Type: message`, or the type alone where the exception cannot say its message."""
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
        handle = 2 if where == "1" else os.open(where, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, f"ci-doctor preload: [{os.getpid()}] {text}\n".encode("utf-8", "replace"))
        finally:
            if handle != 2:
                os.close(handle)
    except Exception:  # noqa: BLE001, S110 - a full disk must not end the program
        pass

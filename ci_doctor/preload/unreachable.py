# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: whether a shim in an interpreter can ever see the import of a rule's trigger."""

import os
import re
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from ci_doctor.errors import InfraError, UsageError
from ci_doctor.preload.inspection import PROBE_TIMEOUT_S
from ci_doctor.preload.interpreter import ask, clean_environment
from ci_doctor.preload.preload_rule import PreloadRule, format_rule
from ci_doctor.preload.shim_files import PATH_FILE
from ci_doctor.preload.target import Target

# `site` runs here, and not before: what is loaded when it comes to our `.pth` file is out of reach.
# In old syntax. The last line of stdout is the answer.
_PROGRAM: Final = """
import sys
site_dir, path_file = sys.argv[1], sys.argv[2]
triggers = sys.argv[3:]
import os, site
loaded = []
addsitedir, addpackage = site.addsitedir, site.addpackage
def here(directory):
    return os.path.realpath(directory) == os.path.realpath(site_dir)
def note():
    if not loaded:
        loaded.append(set(sys.modules))
def package(directory, name, known_paths, *rest, **more):
    if here(directory) and name >= path_file:
        note()
    return addpackage(directory, name, known_paths, *rest, **more)
def whole(directory, *rest, **more):
    try:
        return addsitedir(directory, *rest, **more)
    finally:
        if here(directory):
            note()
site.addpackage, site.addsitedir = package, whole
site.main()
note()
import _imp, importlib.machinery, json
def kind(name):
    if name in loaded[0]:
        return "loaded"
    if name in sys.builtin_module_names:
        return "built in"
    if _imp.is_frozen(name):
        return "frozen"
    path, full = None, ""
    for part in name.split("."):
        full = full + "." + part if full else part
        try:
            spec = importlib.machinery.PathFinder.find_spec(full, path)
        except KeyError:  # a namespace in a package that is not loaded
            path = [os.path.join(entry, part) for entry in path]
            origin = None
            continue
        except Exception:
            return ""
        if spec is None:
            return ""
        # That of a namespace asks for its parent in sys.modules.
        path = getattr(spec.submodule_search_locations, "_path", spec.submodule_search_locations)
        origin = spec.origin
    return "namespace" if origin in (None, "namespace") else ""
pytest = importlib.machinery.PathFinder.find_spec("pytest") is not None
answer = {"kinds": dict((name, kind(name)) for name in triggers), "has_pytest": pytest}
print()
print(json.dumps(answer))
"""
# The files that pytest takes for test modules, by default (`python_files`), and its own.
_REWRITTEN: Final = re.compile(r"(^|\.)(conftest|test_\w*|\w*_test)$")
_REASONS: Final = {
    "loaded": "each start of this interpreter loads it before the shim",
    "built in": "it is built into the interpreter, and a shim sees no import of it",
    "frozen": "it is frozen into the interpreter, and a shim sees no import of it",
    "namespace": "it is a namespace package, which has no code and no loader",
}


class _Reach(Struct, frozen=True, kw_only=True):
    kinds: dict[str, str]
    has_pytest: bool


def refuse_unreachable(target: Target, rules: Sequence[PreloadRule]) -> None:
    """Raises UsageError for the first rule that can never fire, with the reason.

    Raises InfraError if the interpreter does not answer.
    """
    reach = _ask(target, [rule.trigger for rule in rules])
    for rule in rules:
        reason = _REASONS.get(reach.kinds[rule.trigger])
        hint = "take the module that starts the thread as trigger: `ci-doctor import-race` names it"
        if reason is None and reach.has_pytest and _REWRITTEN.search(rule.trigger):
            reason = "pytest loads it by a finder of its own, which stands in front of the shim"
            hint = "write the import at the top of conftest.py, or run pytest with --assert=plain"
        if reason is not None:
            raise UsageError(
                f"preload rule {format_rule(rule)!r} cannot fire with {target.python}: "
                f"{rule.trigger}: {reason}",
                hint=hint,
            )


def _ask(target: Target, triggers: Sequence[str]) -> _Reach:
    environment = clean_environment(os.environ)
    words = ("-I", "-S", "-B", "-c", _PROGRAM, str(target.site_dir), PATH_FILE, *triggers)
    answer = ask(target.python, *words, timeout_s=PROBE_TIMEOUT_S, environment=environment)
    try:
        return msgspec.json.decode(answer.last_line, type=_Reach)
    except (msgspec.DecodeError, IndexError):
        raise InfraError(
            f"{target.python} does not tell what it loads at its start: {answer.last_error_line}",
            hint=f"run `{target.python} -I -c pass`",
        ) from None

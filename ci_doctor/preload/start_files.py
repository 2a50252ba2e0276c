# SPDX-License-Identifier: Apache-2.0
"""Reads a site directory, and makes the content of a shim's files from its rules.

Each file carries its owner and the SHA-256 of what follows, so that it proves by itself whether it
is as some version of ci-doctor wrote it. The rules are those of the finder.
"""

import ast
import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.model.facts.preparing import FileCondition
from ci_doctor.preload.preload_rule import Preload, PreloadRule

RUNTIME: Final = "_ci_doctor_preload_rt.py"
FINDER: Final = "_ci_doctor_preload.py"
PATH_FILE: Final = "ci_doctor_preload.pth"
MODULES: Final = (RUNTIME, FINDER)
# Written in this order and removed in reverse, so that the interpreter starts cleanly after a crash
# at any point: the `.pth`, which arms the shim, never outlives what it imports.
FILES: Final = (RUNTIME, FINDER, PATH_FILE)
CACHE: Final = "__pycache__"

_TEMPLATES: Final = Path(__file__).parent / "shim"
_OWNER: Final = "# a shim of ci-doctor preload"
# For whoever finds it where ci-doctor is gone: the shim goes on without it.
REMOVAL_LINE: Final = (
    f"{_OWNER}; to remove it without ci-doctor, in this folder: "
    f"rm -f {PATH_FILE} _ci_doctor_preload*.py __pycache__/_ci_doctor_preload*"
)
_LICENCE: Final = "# SPDX-License-Identifier: Apache-2.0\n"
OWNER_LINE: Final = "# managed-by: ci-doctor preload"
_HEAD: Final = f"{REMOVAL_LINE}\n{_LICENCE}{OWNER_LINE}"
# `site` prints an error of each start for a line that raises, and the shim's modules may be gone.
_ARMING: Final = (
    f"import sys; exec('try:\\n import {Path(FINDER).stem}\\nexcept ImportError:\\n pass')\n"
)
_RULES_BEGIN: Final = "# ci-doctor rules: begin\n"
_RULES_END: Final = "# ci-doctor rules: end\n"
_OWNED: Final = re.compile(
    re.escape(_OWNER.encode())
    + rb"(?:"
    + re.escape(_HEAD.removeprefix(_OWNER).encode())
    + rb", sha256 ([0-9a-f]{64})\n(.*))?",
    re.DOTALL,
)
_STEMS: Final = "|".join(re.escape(Path(name).stem) for name in MODULES)
# `NAME.cpython-312.pyc`, and `.NAME.cpython-312.pyc.k3x_9abd` or `NAME.cpython-312.pyc.140234`: what a
# process leaves that was killed while it wrote (ours, and importlib's _write_atomic).
_COMPILED: Final = re.compile(rf"(?:{_STEMS})\.[\w-]+(?:\.opt-\w+)?\.pyc")
_COMPILED_IN_PART: Final = re.compile(
    rf"{_COMPILED.pattern}\.\d+|\.{_COMPILED.pattern}\.[a-z0-9_]{{8}}"
)
# What `system.files.atomic.write_atomically` writes before it renames.
_IN_PART: Final = re.compile(rf"\.(?:{'|'.join(map(re.escape, FILES))})\.[a-z0-9_]{{8}}")


class SiteState(Struct, frozen=True, kw_only=True):
    """The shim's part of a site directory, by file name; `contents` has the regular files only.

    `compiled` is bytecode of ours, of any interpreter. `cut_off` are the remainders of killed
    processes. `rules` are those of the finder, if it is ours.
    """

    contents: dict[str, bytes]
    conditions: dict[str, FileCondition]
    rules: tuple[PreloadRule, ...] = ()
    compiled: tuple[Path, ...] = ()
    cut_off: tuple[Path, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Nothing is there that could be ours."""
        is_absent = set(self.conditions.values()) == {FileCondition.ABSENT}
        return is_absent and not self.compiled and not self.cut_off

    @property
    def is_whole(self) -> bool:
        """All files are as some version of ci-doctor wrote them."""
        return set(self.conditions.values()) == {FileCondition.OURS}


def shim_files(rules: Iterable[PreloadRule]) -> dict[str, bytes]:
    """The files that arm `rules`, by name, in the order of FILES."""
    runtime = (_TEMPLATES / RUNTIME).read_text(encoding="utf-8")
    finder = (_TEMPLATES / FINDER).read_text(encoding="utf-8")
    before, _, rest = finder.partition(_RULES_BEGIN)
    # As a literal: a start of the interpreter has nothing to parse.
    held = {
        rule.trigger: tuple((preload.module, preload.attributes) for preload in rule.preloads)
        for rule in rules
    }
    lines = [f"    {trigger!r}: {pairs!r},\n" for trigger, pairs in held.items()]
    literal = "".join([_RULES_BEGIN, "RULES = {\n", *lines, "}\n", _RULES_END])
    header = f"{_LICENCE}{OWNER_LINE}\n"
    return {
        RUNTIME: _signed(runtime.removeprefix(header)),
        FINDER: _signed(before.removeprefix(header) + literal + rest.partition(_RULES_END)[2]),
        PATH_FILE: _signed(_ARMING),
    }


def _signed(body: str) -> bytes:
    content = body.encode()
    digest = hashlib.sha256(content).hexdigest()
    return f"{_HEAD}, sha256 {digest}\n".encode() + content


def read_site(site_dir: Path) -> SiteState:
    """Read the places of the files of a shim. Raises UsageError if one cannot be read."""
    try:
        return _read_site(site_dir)
    except OSError as error:
        raise UsageError(
            f"cannot read {error.filename}: {error.strerror or error}",
            hint="run as the user who owns it",
        ) from error


def _read_site(site_dir: Path) -> SiteState:
    contents: dict[str, bytes] = {}
    conditions: dict[str, FileCondition] = {}
    for name in FILES:
        path = site_dir / name
        if _is_regular(path):
            contents[name] = path.read_bytes()
            conditions[name] = _condition_of(name, contents[name])
        else:
            occupied = path.is_symlink() or path.exists()
            conditions[name] = FileCondition.NOT_A_FILE if occupied else FileCondition.ABSENT
    beside = sorted(site_dir.iterdir()) if site_dir.is_dir() else []
    cache = site_dir / CACHE
    # A link may lead to another environment's bytecode.
    in_cache = sorted(cache.iterdir()) if cache.is_dir() and not cache.is_symlink() else []
    compiled = [path for path in in_cache if _COMPILED.fullmatch(path.name)]
    cut_off = [
        *(path for path in beside if _IN_PART.fullmatch(path.name)),
        *(path for path in in_cache if _COMPILED_IN_PART.fullmatch(path.name)),
    ]
    return SiteState(
        contents=contents,
        conditions=conditions,
        rules=_rules_of(contents[FINDER]) if conditions[FINDER] is FileCondition.OURS else (),
        compiled=tuple(filter(_is_regular, compiled)),
        cut_off=tuple(filter(_is_regular, cut_off)),
    )


def _condition_of(name: str, content: bytes) -> FileCondition:
    """Who wrote `content`, a regular file in the place of the file `name` of the shim."""
    owned = _OWNED.match(content)
    if owned is None:
        return FileCondition.FOREIGN
    digest, body = owned.groups(default=b"")
    is_whole = hashlib.sha256(body).hexdigest().encode() == digest
    # One of the shim's files may have been copied to the place of another.
    is_in_place = name == _name_by_content(body)
    return FileCondition.OURS if is_whole and is_in_place else FileCondition.EDITED


def _name_by_content(body: bytes) -> str:
    if _RULES_BEGIN.encode() in body:
        return FINDER
    return PATH_FILE if body.startswith(b"import ") else RUNTIME


def rules_from(held: Mapping[str, Iterable[tuple[str, Iterable[str]]]]) -> tuple[PreloadRule, ...]:
    """The rules in the form in which a finder holds them."""
    return tuple(
        PreloadRule(
            trigger=trigger,
            preloads=tuple(Preload(module=name, attributes=tuple(names)) for name, names in pairs),
        )
        for trigger, pairs in held.items()
    )


def _rules_of(finder: bytes) -> tuple[PreloadRule, ...]:
    literal = finder.decode().partition(_RULES_BEGIN)[2].partition(_RULES_END)[0]
    return rules_from(ast.literal_eval(literal.removeprefix("RULES = ")))


def _is_regular(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()

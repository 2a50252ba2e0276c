# SPDX-License-Identifier: Apache-2.0
"""Reads the templates beside it: the content of the four files of a shim, from its rules."""

import ast
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.preload.preload_rule import PreloadRule, format_rules, parse_rule

# History: 1 = first form (2026-11); 2 = `made_cache` (2026-11). An older form is read, and written
# anew.
SCHEMA = "ci-doctor/preload/2"
_READ = {SCHEMA, "ci-doctor/preload/1"}
OWNER = "ci-doctor preload"
OWNER_LINE = f"# managed-by: {OWNER}"

MANIFEST = "ci_doctor_preload.json"
RUNTIME = "_ci_doctor_preload_rt.py"
FINDER = "_ci_doctor_preload.py"
PATH_FILE = "ci_doctor_preload.pth"
MODULES = (RUNTIME, FINDER)
# Written in this order and removed in reverse, so that the interpreter starts cleanly after a crash
# at any point: the manifest knows every file of ours that may exist, and the `.pth`, which arms the
# shim, never outlives what it imports.
FILES = (MANIFEST, RUNTIME, FINDER, PATH_FILE)

_TEMPLATES = Path(__file__).parent / "shim"
RULES_BEGIN = "# ci-doctor rules: begin\n"
RULES_END = "# ci-doctor rules: end\n"


class ShimManifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ci-doctor has put into a site directory.

    `rules` are in `parse_rule` form. `sha256` has, by file name, the digests that a file of ours
    may have: that of this installation, and that of the one it replaced, which is still there if an
    installation was cut off. `made_cache`: the shim created the directory of the bytecode.
    """

    schema: str = SCHEMA
    managed_by: str = OWNER
    rules: tuple[str, ...]
    sha256: dict[str, tuple[str, ...]]
    made_cache: bool = True

    @property
    def parsed_rules(self) -> tuple[PreloadRule, ...]:
        """The rules as values."""
        return tuple(parse_rule(text) for text in self.rules)


def shim_files(rules: Iterable[PreloadRule]) -> dict[str, bytes]:
    """The files that arm `rules`, by name, without the manifest."""
    template = (_TEMPLATES / FINDER).read_text(encoding="utf-8")
    licence = "# SPDX-License-Identifier: Apache-2.0"
    path_file = f"{licence}\n{OWNER_LINE}\nimport {Path(FINDER).stem}\n"
    return {
        RUNTIME: (_TEMPLATES / RUNTIME).read_bytes(),
        FINDER: _render_finder(template, rules).encode(),
        PATH_FILE: path_file.encode(),
    }


def make_manifest(
    rules: Iterable[PreloadRule],
    files: Mapping[str, bytes],
    previous: Mapping[str, bytes],
    before: ShimManifest | None,
    *,
    made_cache: bool = True,
) -> ShimManifest:
    """The manifest for `files`, if our files hold `previous` now and `before` describes them."""
    digests: dict[str, tuple[str, ...]] = {}
    for name, content in files.items():
        current = digest(content)
        replaced = digest(previous[name]) if name in previous else current
        recorded = before.sha256.get(name, ()) if before else ()
        if replaced != current:
            digests[name] = (current, replaced)
        elif recorded[:1] == (current,):
            # Nothing will change, so the manifest must not change either.
            digests[name] = recorded
        else:
            digests[name] = (current,)
    return ShimManifest(rules=format_rules(rules), sha256=digests, made_cache=made_cache)


def encode_manifest(manifest: ShimManifest) -> bytes:
    """Indented JSON with a final newline."""
    compact = msgspec.json.encode(manifest, order="sorted")
    return msgspec.json.format(compact, indent=2) + b"\n"


def decode_manifest(content: bytes) -> ShimManifest | None:
    """The manifest in `content`, or None if it is not one of ours."""
    try:
        manifest = msgspec.json.decode(content, type=ShimManifest)
        for text in manifest.rules:
            parse_rule(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, UsageError):
        return None
    is_ours = manifest.schema in _READ and manifest.managed_by == OWNER
    return manifest if is_ours else None


def recover_rules(finder: bytes) -> tuple[PreloadRule, ...] | None:
    """The rules that an unchanged finder of this version holds; None for any other content."""
    text = finder.decode("utf-8", "replace")
    literal = text.partition(RULES_BEGIN)[2].partition(RULES_END)[0].removeprefix("RULES = ")
    try:
        held = ast.literal_eval(literal)
        texts = [_rule_text(trigger, pairs) for trigger, pairs in held.items()]
        rules = tuple(parse_rule(each) for each in texts)
    except (ValueError, SyntaxError, TypeError, AttributeError, UsageError):
        return None
    return rules if shim_files(rules)[FINDER] == finder else None


def _rule_text(trigger: str, pairs: Iterable[tuple[str, tuple[str, ...]]]) -> str:
    modules = [f"{module}:{','.join(names)}" if names else module for module, names in pairs]
    return f"{trigger}={';'.join(modules)}"


def digest(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def _render_finder(template: str, rules: Iterable[PreloadRule]) -> str:
    head, rest = template.split(RULES_BEGIN)
    tail = rest.split(RULES_END)[1]
    lines = []
    for rule in rules:
        # As a literal: a start of the interpreter has nothing to parse.
        pairs = tuple((preload.module, preload.attributes) for preload in rule.preloads)
        lines.append(f"    {rule.trigger!r}: {pairs!r},\n")
    return "".join([head, RULES_BEGIN, "RULES = {\n", *lines, "}\n", RULES_END, tail])

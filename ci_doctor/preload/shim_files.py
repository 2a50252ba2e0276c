# SPDX-License-Identifier: Apache-2.0
"""The content of the four files of a shim, worked out from its rules."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.preload.preload_rule import PreloadRule, format_rule, parse_rule

# History: 1 = first form (2026-11); 2 = `made_cache` (2026-11). A form that is older is read, and written anew.
SCHEMA = "ci-doctor/preload/2"
_READ = {SCHEMA, "ci-doctor/preload/1"}
OWNER = "ci-doctor preload"
OWNER_LINE = f"# managed-by: {OWNER}"

MANIFEST = "ci_doctor_preload.json"
RUNTIME = "_ci_doctor_preload_rt.py"
FINDER = "_ci_doctor_preload.py"
PATH_FILE = "ci_doctor_preload.pth"
MODULES = (RUNTIME, FINDER)
# Written in this order and removed in reverse, so that the interpreter starts cleanly wherever it stops: the manifest
# knows every file of ours that may be there, and the `.pth`, which arms the shim, never outlives what it imports.
FILES = (MANIFEST, RUNTIME, FINDER, PATH_FILE)

_TEMPLATES = Path(__file__).parent / "shim"
_RULES_BEGIN = "# ci-doctor rules: begin\n"
_RULES_END = "# ci-doctor rules: end\n"


class Manifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ci-doctor has put into a site directory.

    `rules` are in `parse_rule` form. `sha256` has, by file name, the digests that a file of ours may have: what this
    manifest came with, and what it replaced, which may still lie there when an installation was cut off. `made_cache`:
    the directory of the bytecode is there because of the shim.
    """

    schema: str = SCHEMA
    managed_by: str = OWNER
    rules: tuple[str, ...]
    sha256: dict[str, tuple[str, ...]]
    made_cache: bool = True


def shim_files(rules: Iterable[PreloadRule]) -> dict[str, bytes]:
    """The files that arm `rules`, by name, without the manifest."""
    return {
        RUNTIME: (_TEMPLATES / RUNTIME).read_bytes(),
        FINDER: _render_finder((_TEMPLATES / FINDER).read_text(encoding="utf-8"), rules).encode(),
        PATH_FILE: f"# SPDX-License-Identifier: Apache-2.0\n{OWNER_LINE}\nimport {Path(FINDER).stem}\n".encode(),
    }


def make_manifest(
    rules: Iterable[PreloadRule],
    files: Mapping[str, bytes],
    previous: Mapping[str, bytes],
    before: Manifest | None,
    *,
    made_cache: bool = True,
) -> Manifest:
    """The manifest for `files`, where files of ours with the contents `previous` lie there and `before` describes them."""
    digests: dict[str, tuple[str, ...]] = {}
    for name, content in files.items():
        current = digest(content)
        there = digest(previous[name]) if name in previous else current
        known = before.sha256.get(name, ()) if before else ()
        if there != current:
            digests[name] = (current, there)
        else:  # nothing will change, so the manifest must not change either
            digests[name] = known if known[:1] == (current,) else (current,)
    return Manifest(
        rules=tuple(format_rule(rule) for rule in rules), sha256=digests, made_cache=made_cache
    )


def encode_manifest(manifest: Manifest) -> bytes:
    """Indented JSON with a final newline."""
    return msgspec.json.format(msgspec.json.encode(manifest, order="sorted"), indent=2) + b"\n"


def decode_manifest(content: bytes) -> Manifest | None:
    """The manifest in `content`, or None where it is not one of ours."""
    try:
        manifest = msgspec.json.decode(content, type=Manifest)
        for text in manifest.rules:
            parse_rule(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, UsageError):
        return None
    return manifest if manifest.schema in _READ and manifest.managed_by == OWNER else None


def digest(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def _render_finder(template: str, rules: Iterable[PreloadRule]) -> str:
    head, rest = template.split(_RULES_BEGIN)
    tail = rest.split(_RULES_END)[1]
    lines = [
        f"    {rule.trigger!r}: {tuple((preload.module, preload.attributes) for preload in rule.preloads)!r},\n"
        for rule in rules
    ]
    return "".join([head, _RULES_BEGIN, "RULES = {\n", *lines, "}\n", _RULES_END, tail])

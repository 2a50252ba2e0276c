# SPDX-License-Identifier: Apache-2.0
"""The content of a shim's files."""

import ast

import pytest

from ci_doctor.preload.preload_rule import parse_rule
from ci_doctor.preload.shim_files import (
    FILES,
    FINDER,
    MANIFEST,
    MODULES,
    OWNER_LINE,
    PATH_FILE,
    ShimManifest,
    decode_manifest,
    digest,
    encode_manifest,
    make_manifest,
    shim_files,
)

RULES = (
    parse_rule("serve=json;transformers:GenerationConfig,AutoConfig"),
    parse_rule("vllm.cli=torch"),
)


def _assigned_rules(source: bytes) -> object:
    for node in ast.parse(source).body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id == "RULES"
        ):
            return ast.literal_eval(node.value)
    raise LookupError("RULES")


def test_every_file_begins_with_the_licence_and_the_owner() -> None:
    for content in shim_files(RULES).values():
        assert content.decode().splitlines()[:2] == [
            "# SPDX-License-Identifier: Apache-2.0",
            OWNER_LINE,
        ]


def test_rules_are_embedded_as_a_literal() -> None:
    assert _assigned_rules(shim_files(RULES)[FINDER]) == {
        "serve": (("json", ()), ("transformers", ("GenerationConfig", "AutoConfig"))),
        "vllm.cli": (("torch", ()),),
    }


def test_path_file_holds_one_bare_import_line() -> None:
    lines = shim_files(RULES)[PATH_FILE].decode().splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["import _ci_doctor_preload"]


@pytest.mark.parametrize("name", MODULES)
def test_modules_are_in_the_syntax_of_python_3_8(name: str) -> None:
    ast.parse(shim_files(RULES)[name], feature_version=(3, 8))


def test_idle_finder_imports_nothing_but_sys_and_defines_no_class() -> None:
    body = ast.parse(shim_files(RULES)[FINDER]).body
    assert [
        ast.unparse(node) for node in body if isinstance(node, ast.Import | ast.ImportFrom)
    ] == ["import sys"]
    assert not [node for node in body if isinstance(node, ast.ClassDef)]


def test_manifest_is_written_first_and_the_path_file_last() -> None:
    assert FILES[0] == MANIFEST
    assert FILES[-1] == PATH_FILE


def test_manifest_reads_as_written() -> None:
    manifest = make_manifest(RULES, shim_files(RULES), {}, None)
    assert decode_manifest(encode_manifest(manifest)) == manifest
    assert manifest.rules == (
        "serve=json;transformers:GenerationConfig,AutoConfig",
        "vllm.cli=torch",
    )


def test_manifest_knows_also_the_files_that_it_replaces() -> None:
    old, new = shim_files(RULES[:1]), shim_files(RULES)
    first = make_manifest(RULES[:1], old, {}, None)
    second = make_manifest(RULES, new, old, first)
    assert second.sha256[FINDER] == (digest(new[FINDER]), digest(old[FINDER]))
    assert make_manifest(RULES, new, new, second) == second, "a second installation changes nothing"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(
            encode_manifest(ShimManifest(schema="ci-doctor/preload/99", rules=(), sha256={})),
            id="newer",
        ),
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff", id="not-utf-8"),
        pytest.param(b"{}", id="no-fields"),
        pytest.param(
            encode_manifest(ShimManifest(rules=(), sha256={}, managed_by="another tool")),
            id="of-another-tool",
        ),
        pytest.param(
            encode_manifest(ShimManifest(rules=("a=b;import os",), sha256={})), id="with-a-bad-rule"
        ),
    ],
)
def test_what_is_no_manifest_of_ours_is_none(content: bytes) -> None:
    assert decode_manifest(content) is None


def test_first_form_of_the_manifest_is_still_read() -> None:
    first = b'{"managed_by": "ci-doctor preload", "rules": ["a=b"], "schema": "ci-doctor/preload/1", "sha256": {}}'
    manifest = decode_manifest(first)
    assert manifest is not None
    assert (manifest.rules, manifest.made_cache) == (("a=b",), True)

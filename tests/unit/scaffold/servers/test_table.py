# SPDX-License-Identifier: Apache-2.0
from ci_doctor.scaffold.servers.table import BY_KIND, KINDS, kind_at
from tests.support.cli import ROOT


def test_each_server_stands_on_the_page() -> None:
    page = (ROOT / "docs" / "init.md").read_text(encoding="utf-8")
    for kind in KINDS:
        assert f"`{kind.name}`" in page, kind.name


def test_each_start_is_its_own_row_and_no_other() -> None:
    for kind in KINDS:
        for start in kind.starts:
            found = kind_at(["x", *start, "y"], 1)
            assert found == (kind, 1 + len(start)), start
    assert set(BY_KIND) == {kind.name for kind in KINDS}


def test_a_program_may_be_named_with_its_directory() -> None:
    assert kind_at(["/opt/venv/bin/vllm", "serve"], 0) is not None
    assert kind_at(["vllm"], 0) is None

# SPDX-License-Identifier: Apache-2.0
""""""

import os
import re
import subprocess
import textwrap
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.errors import UsageError
from ci_doctor.model.facts.preparing import InitFile
from ci_doctor.scaffold import look as tree
from ci_doctor.scaffold.candidates import ServerCandidate, engine_candidate
from ci_doctor.scaffold.commands import server_commands
from ci_doctor.scaffold.look import TextReader, read_files, write_files
from ci_doctor.scaffold.servers import ScriptPlace, SourceFile, TextKind
from ci_doctor.scaffold.texts import (
    hook_place,
    pre_commit_entry,
    service_table,
    toml_key,
    toml_list,
    toml_string,
    toml_table,
)
from tests.support.git_repository import git, make_repository


def file(path: str, text: str = "x\n") -> InitFile:
    return InitFile(path=path, text=text, why="")


def everything(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def test_files_are_written_whole_with_their_directories(tmp_path: Path) -> None:
    write_files(tmp_path, [file("a/b/c.toml", "c = 1\n"), file("d", "\ud800")])
    assert (tmp_path / "a" / "b" / "c.toml").read_text() == "c = 1\n"
    assert everything(tmp_path) == ["a", "a/b", "a/b/c.toml", "d"]
    assert (tmp_path / "d").stat().st_mode & 0o777 == 0o644


def test_one_that_exists_by_now_takes_back_all_that_was_written(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("mine")
    with pytest.raises(UsageError, match="File exists; nothing was written"):
        write_files(tmp_path, [file("new/a"), file("b"), file("c")])
    assert everything(tmp_path) == ["b"]
    assert (tmp_path / "b").read_text() == "mine"


def test_a_link_to_nothing_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="File exists"):
        write_files(tmp_path, [file("a")])
    assert not (tmp_path / "elsewhere").exists()


def test_a_directory_that_cannot_be_made_is_an_error_and_nothing_stays(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file")
    with pytest.raises(UsageError, match="nothing was written"):
        write_files(tmp_path, [file("x"), file("a/b")])
    assert everything(tmp_path) == ["a"]


def test_a_signal_in_the_middle_takes_everything_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def interrupted(temporary: str, path: Path) -> None:
        if path.name == "second":
            raise KeyboardInterrupt
        link(temporary, path)

    monkeypatch.setattr(os, "link", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_files(tmp_path, [file("d/first"), file("second")])
    assert everything(tmp_path) == []


def test_without_hard_links_a_name_that_is_taken_is_refused_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As link(2) on a file system without them (vfat, some containers).
    def unsupported(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", unsupported)
    write_files(tmp_path, [file("a", "1")])
    assert (tmp_path / "a").read_text() == "1"
    with pytest.raises(UsageError, match="File exists"):
        write_files(tmp_path, [file("a", "2")])
    assert everything(tmp_path) == ["a"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_without_permission_is_a_usage_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(UsageError, match="nothing was written"):
            write_files(tmp_path, [file("a")])
    finally:
        tmp_path.chmod(0o755)


def make(directory: Path, *names: str) -> None:
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("x")


def test_without_git_all_files_are_listed_but_those_of_others(tmp_path: Path) -> None:
    make(tmp_path, "a.sh", "b/c.sh", "node_modules/d.sh", "b/.venv/e.sh", "third_party/f.sh")
    (tmp_path / "loop").symlink_to(tmp_path)
    found = read_files(tmp_path)
    assert [name for name in found.files if name != "loop"] == ["a.sh", "b/c.sh"]
    assert not found.is_repository


def test_git_decides_what_belongs_to_a_repository(tmp_path: Path) -> None:
    make_repository(tmp_path, {".gitignore": "out/\n", "vendor/x.sh": "x"})
    make(tmp_path, "new.sh", "out/a.sh")
    found = read_files(tmp_path)
    assert found.files == (".gitignore", "new.sh")
    assert (found.is_repository, found.root) == (True, tmp_path)


def test_in_a_subdirectory_its_own_files_are_looked_at(tmp_path: Path) -> None:
    make_repository(tmp_path, {"a b/c.sh": "x", "other/d.sh": "x"})
    found = read_files(tmp_path / "a b")
    assert found.files == ("c.sh",)
    assert found.root_files == ("a b/c.sh", "other/d.sh")


def test_a_work_tree_beside_its_repository_is_read_like_any_other(tmp_path: Path) -> None:
    make_repository(tmp_path / "main", {"a.sh": "x"})
    git(tmp_path / "main", "worktree", "add", "--quiet", str(tmp_path / "second"))
    assert read_files(tmp_path / "second").files == ("a.sh",)


def test_more_files_than_the_limit_are_left_out_and_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "MOST_FILES", 2)
    make(tmp_path, "a", "b", "c", "d")
    found = read_files(tmp_path)
    assert (found.files, found.is_whole) == (("a", "b"), False)


def test_a_text_is_read_whatever_its_bytes_and_line_ends(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_bytes(b"\xef\xbb\xbfcaf\xe9\r\nb\rc")
    assert TextReader(tmp_path).text("a.sh") == "caf\ufffd\nb\nc"


def test_what_lies_behind_a_link_is_not_read(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    make(outside, "a.sh")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link.sh").symlink_to(outside / "a.sh")
    (inside / "directory").symlink_to(outside)
    reader = TextReader(inside)
    for name in ("link.sh", "directory/a.sh", "gone.sh", "directory"):
        assert reader.text(name) is None
    assert reader.skipped == []


def test_large_files_and_those_beyond_the_sum_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "LARGEST_FILE", 4)
    monkeypatch.setattr(tree, "MOST_BYTES", 6)
    for name, size in {"a": 4, "b": 5, "c": 3, "d": 2}.items():
        (tmp_path / name).write_text("x" * size)
    reader = TextReader(tmp_path)
    read = [name for name in "abcd" if reader.text(name) is not None]
    assert (read, reader.skipped) == (["a", "d"], ["b", "c"])


def made(text: str) -> ServerCandidate:
    source = SourceFile(path="a.sh", kind=TextKind.SHELL, place=ScriptPlace.SCRIPT, text=text)
    candidate = engine_candidate(server_commands(source)[0])
    assert candidate is not None
    return candidate


def table(candidate: ServerCandidate, *comments: str) -> dict[str, Any]:
    text = service_table("a b", candidate, *comments)
    parsed: dict[str, Any] = tomllib.loads(text)["services"]["a b"]
    return parsed


def test_a_simple_command_is_one_text_and_one_with_quotes_is_a_list() -> None:
    assert table(made("vllm serve m"))["command"] == "vllm serve m --port {port}"
    command = table(made("""vllm serve m --x '{"a": "b c"}'"""))["command"]
    assert command == ["vllm", "serve", "m", "--x", '{"a": "b c"}', "--port", "{port}"]


def test_variables_of_the_job_are_expanded_by_a_shell_that_fails_without_them() -> None:
    candidate = made("""A=$B C=d vllm serve "$MODEL/x" --y '$z "q"' --port 1""")
    written = table(candidate)
    assert written["env"] == {"C": "d"}
    shell, flags, script = written["command"]
    assert (shell, flags) == ("bash", "-uc")
    shown = script.replace("exec env", "exec env -i PATH=$PATH").replace(" vllm ", " printf '%s|' ")
    ran = subprocess.run(
        [shell, flags, shown], env={"MODEL": "m o", "B": "b", "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.stdout == 'serve|m o/x|--y|$z "q"|--port|{port}|', ran.stderr
    refused = subprocess.run([shell, flags, script], env={"PATH": "/bin"}, capture_output=True, text=True, check=False)  # fmt: skip
    assert "unbound variable" in refused.stderr


def test_a_comment_ends_with_its_line_whatever_a_file_is_called() -> None:
    assert table(made("vllm serve m"), "from a\nready = 'x'.sh:1")["ready"] == "/health"


@given(st.text(max_size=40))
def test_every_text_is_written_as_toml(text: str) -> None:
    document = f"{toml_key(text)} = {toml_string(text)}\nlist = {toml_list([text] * 3)}\ntable = {toml_table({text: text})}\n"
    values = tomllib.loads(document) if text not in {"list", "table"} else {}
    if values:
        assert values[text] == text
        assert values["list"] == [text] * 3
        assert values["table"] == {text: text}


HOOKS = "- repo: https://github.com/a/b\n  rev: v1\n  hooks:\n  - id: c\n    args: [x,\n      y]\n"
BLOCK = HOOKS + "  - id: d\n    exclude: |\n      # text\n      b\n"


@pytest.mark.parametrize("indent", [0, 2, 4, 7])
@pytest.mark.parametrize("hooks", [HOOKS, BLOCK, HOOKS.rstrip("\n")])
@pytest.mark.parametrize(
    ("head", "tail"),
    [
        ("", ""),
        ("---\n# hooks\nfail_fast: true\n", "\n# the end\n"),
        ("default_stages: [commit]\n\n", "\n\n# of ci\nci:\n  autofix_prs: false\n"),
        ("", "\nfail_fast: true"),
        ("", "\n...\n"),
    ],
)
def test_the_hook_is_an_item_of_the_list_that_is_there(
    indent: int, hooks: str, head: str, tail: str
) -> None:
    before = f"{head}repos:\n{textwrap.indent(hooks, ' ' * indent)}{tail}"
    place = hook_place(before.replace("\n", "\r\n") if indent == 2 else before)
    block = pre_commit_entry("git+https://a/b@0", place)
    line = int(re.match(r"after line (\d+), ", place.words)[1])  # type: ignore[index]
    lines = before.split("\n")
    after = yaml.safe_load("\n".join([*lines[:line], *block.rstrip().split("\n"), *lines[line:]]))
    assert len(after["repos"]) == 2
    assert after["repos"].pop()["hooks"][0]["id"] == "ci-doctor-lint"
    assert after == yaml.safe_load(before)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("repos: []\nfail_fast: true\n", "in place of line 1"),
        ("ci: {}\nrepos:\n", "in place of line 2"),
        ("# nothing yet\n", "at its end"),
        ("", "at its end"),
        ("fail_fast: true\n", "at its end"),
    ],
)
def test_a_file_without_hooks_gets_the_list_too(text: str, words: str) -> None:
    place = hook_place(text)
    assert place.words == words
    block = pre_commit_entry("git+https://a/b@0", place)
    kept = [line for line in text.split("\n") if not line.startswith("repos")]
    assert len(yaml.safe_load("\n".join([*kept, block]))["repos"]) == 1


@pytest.mark.parametrize(
    "text", ["repos: [{repo: local, hooks: []}]\n", "{fail_fast: true}\n", "repos: [\n", "- a\n"]
)
def test_no_block_is_offered_that_would_not_fit(text: str) -> None:
    assert hook_place(text).indent is None

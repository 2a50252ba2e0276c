# SPDX-License-Identifier: Apache-2.0
"""Acts on git: puts the Buildkite plugin into a repository of its own, with its history.

    python -m release.plugin v1.2.3 --to ../ci-doctor-buildkite-plugin
    git -C ../ci-doctor-buildkite-plugin push --follow-tags origin main

`git subtree split` makes the history of buildkite_plugins/ci-doctor. Each release is a commit over it on `main`, tagged:
the README's links to the rest of this repository become addresses, and the licence is added. `--to` is a clone of the
plugin's repository, on main and without changes, or is made. Nothing is pushed. A pipeline names it `OWNER/ci-doctor#v1.2.3` if the repository is
called OWNER/ci-doctor-buildkite-plugin (buildkite.com/docs/pipelines/integrations/plugins/using).
"""

import argparse
import os
import re
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PREFIX = "buildkite_plugins/ci-doctor"
# What the file HEAD says, also before the first commit (git-symbolic-ref(1)).
_ON_MAIN = "ref: refs/heads/main\n"
TAG = re.compile(r"v\d+\.\d+\.\d+")


class PluginError(Exception):
    """The plugin cannot be released; the message says why."""


def release(repository: Path, tag: str, target: Path) -> str:
    """Commit and tag the plugin of `repository` in `target`; the commit. Raises PluginError."""
    if not TAG.fullmatch(tag):
        raise PluginError(f"{tag} is no tag of a release, such as v1.2.3")
    if _git(repository, "status", "--porcelain", "--", PREFIX):
        raise PluginError(f"{PREFIX} has changes that are not committed")
    _check_target(repository, target)
    if not (target / ".git").exists():
        target.mkdir(parents=True, exist_ok=True)
        _git(target, "init", "--quiet", "--initial-branch=main")
    if _git(target, "tag", "--list", tag):
        raise PluginError(f"{target} has the tag {tag} already")
    split = _git(repository, "subtree", "split", "-q", f"--prefix={PREFIX}")
    _git(target, "fetch", "--quiet", "--no-tags", str(repository.resolve()), split)
    tree = _tree(repository, target, split, tag)
    commit = _commit(target, tree, split, tag)
    _git(target, "update-ref", "refs/heads/main", commit)
    _git(target, "tag", "--annotate", "--message", f"ci-doctor plugin {tag}", tag, commit)
    _git(target, "reset", "--quiet", "--hard", "main")
    return commit


def _check_target(repository: Path, target: Path) -> None:
    """Raise PluginError if a release would destroy work in `target`: it moves main and its files."""
    if not (target / ".git").exists():
        if os.path.lexists(target) and not (target.is_dir() and not any(target.iterdir())):
            raise PluginError(f"{target} is no repository, and it is not empty: name a new folder")
        return
    # Work trees of one repository have the same branches.
    if _common_directory(repository) == _common_directory(target):
        raise PluginError(f"{target} is the repository of ci-doctor itself: name another folder")
    if (target / _git(target, "rev-parse", "--git-path", "HEAD")).read_text() != _ON_MAIN:
        raise PluginError(f"{target} is not on its branch main: `git -C {target} switch main`")
    if _git(target, "status", "--porcelain", "--untracked-files=all"):
        raise PluginError(f"{target} has changes that are not committed: commit or remove them")


def _common_directory(folder: Path) -> Path:
    return (folder / _git(folder, "rev-parse", "--git-common-dir")).resolve()


def _tree(repository: Path, target: Path, split: str, tag: str) -> str:
    """The tree of a release: that of `split`, with the README's addresses and the licence."""
    with_addresses = runpy.run_path(str(ROOT / "setup.py"))["with_addresses"]
    page = _git(target, "cat-file", "blob", f"{split}:README.md", strip=False)
    contents = {
        "README.md": with_addresses(page, tag, folder=PREFIX),
        "LICENSE": _git(repository, "cat-file", "blob", "HEAD:LICENSE", strip=False),
    }
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": f"{folder}/index"}
        _git(target, "read-tree", split, variables=index)
        for name, text in contents.items():
            blob = _git(target, "hash-object", "-w", "--stdin", text=text)
            entry = f"100644,{blob},{name}"
            _git(target, "update-index", "--add", "--cacheinfo", entry, variables=index)
        return _git(target, "write-tree", variables=index)


def _commit(target: Path, tree: str, split: str, tag: str) -> str:
    """A commit over the last release, so that a push is a fast-forward, and over `split`."""
    last = _git(target, "for-each-ref", "--format=%(objectname)", "refs/heads/main")
    parents = [word for commit in (last, split) if commit for word in ("-p", commit)]
    return _git(target, "commit-tree", tree, *parents, "-m", f"Release {tag}")


def _git(
    directory: Path,
    *words: str,
    text: str | None = None,
    variables: Mapping[str, str] | None = None,
    strip: bool = True,
) -> str:
    ran = subprocess.run(
        ["git", *words],
        cwd=directory,
        env={**os.environ, **(variables or {})},
        input=text,
        check=False,
        capture_output=True,
        encoding="utf-8",
    )
    if ran.returncode:
        raise PluginError(f"git {words[0]} failed\n{ran.stderr.strip()}")
    return ran.stdout.strip() if strip else ran.stdout


def main(words: Sequence[str] | None = None) -> int:
    """Release the plugin; the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tag", help="the tag of the release, such as v1.2.3")
    parser.add_argument("--to", type=Path, required=True, help="the plugin's own repository")
    parser.add_argument("--repository", type=Path, default=ROOT, help="default: this one")
    options = parser.parse_args(words)
    try:
        commit = release(options.repository, options.tag, options.to)
    except PluginError as error:
        print(f"plugin.py: {error}", file=sys.stderr)
        return 1
    print(f"{options.to}: main and {options.tag} are {commit}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""The pin of any checkout is the version of a fresh, whole clone of its remote, or there is none.

Each scene makes an upstream and a checkout of it. What is refused is pinned after its remedy.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psutil
import pytest

from ci_doctor.environment.determinism import Verify
from ci_doctor.environment.pins import ComputedVersion
from ci_doctor.environment.prover import Prover
from ci_doctor.model.outcome import RemedyKind, Severity
from tests.integration import test_versions as versions
from tests.integration.test_versions import (
    HATCH,
    PDM,
    PDM_ORACLE,
    SCM,
    Repository,
    ask,
    ask_library,
    compute,
)

own_git_configuration = versions._own_git_configuration

MONOREPO = (
    SCM
    + '[tool.setuptools_scm.scm.git]\ndescribe_command = ["git", "describe", "--dirty", "--tags", "--long", "--match", "pkg-v*"]\n'
)

MONOREPO_PDM = PDM + 'tag_filter = "pkg-v*"\ntag_regex = "^pkg-v(?P<version>.*)$"\n'


class Scene:
    """An upstream `up` and a checkout `ck`."""

    def __init__(self, folder: Path, pyproject: str = SCM) -> None:
        self.folder = folder
        self.up = Repository(folder / "up", pyproject).tag("v1.2.0").commit()
        self.ck = folder / "ck"

    @property
    def url(self) -> str:
        return f"file://{self.up.root}"

    def clone(self, *options: str) -> "Scene":
        subprocess.run(["git", "clone", "-q", *options, "--", self.url, self.ck], check=True)
        return self

    def here(self, *words: str) -> str:
        ran = subprocess.run(
            ["git", *words], cwd=self.ck, check=True, capture_output=True, text=True
        )
        return ran.stdout.strip()

    def fetched(self, *options: str) -> "Scene":
        """As buildkite-agent does with a checkout that it keeps."""
        self.here("fetch", "-q", "--prune", *options, "--", "origin", "main")
        self.here("checkout", "-qf", "FETCH_HEAD")
        return self


def kept(scene: Scene) -> None:
    scene.clone().up.commit().tag("v1.3.0").commit()
    scene.fetched()


def kept_annotated(scene: Scene) -> None:
    scene.clone().up.commit().tag("v1.3.0", annotated=True).commit()
    scene.fetched()


def kept_release_on_head(scene: Scene) -> None:
    scene.clone().up.commit().tag("v1.3.0")
    scene.fetched()


def kept_candidate_and_release_on_head(scene: Scene) -> None:
    scene.up.commit().tag("v1.3.0rc1")
    scene.clone().up.git("tag", "-a", "-m", "t", "v1.3.0")
    scene.fetched()


def kept_without_new_release(scene: Scene) -> None:
    scene.clone().up.commit(3)
    scene.fetched()


def kept_with_release_elsewhere(scene: Scene) -> None:
    scene.clone().up.git("checkout", "-q", "-b", "side")
    scene.up.commit().tag("v9.0").git("checkout", "-q", "main")
    scene.up.commit()
    scene.fetched()


def kept_with_old_release_lacking(scene: Scene) -> None:
    scene.up.tag("v1.2.1").commit(2).tag("v1.3.0").commit()
    scene.clone().here("tag", "-d", "v1.2.1")


def kept_after_merge(scene: Scene) -> None:
    scene.clone().up.git("checkout", "-q", "-b", "side")
    scene.up.commit().tag("v1.3.0").commit().git("checkout", "-q", "main")
    scene.up.commit().git("merge", "-q", "--no-ff", "-m", "m", "side")
    scene.fetched()


def kept_shallow(scene: Scene) -> None:
    scene.up.commit(3)
    scene.clone("--depth=2").up.commit().tag("v1.3.0").commit()
    scene.fetched("--depth=2")


def kept_shallow_with_cut(scene: Scene) -> None:
    scene.clone("--depth=1").up.commit(5)
    scene.fetched("--depth=2")


def kept_partial(scene: Scene) -> None:
    scene.up.git("config", "uploadpack.allowFilter", "true")
    scene.clone("--filter=blob:none").up.commit().tag("v1.3.0").commit()
    scene.fetched()


def kept_treeless(scene: Scene) -> None:
    scene.up.git("config", "uploadpack.allowFilter", "true")
    scene.clone("--filter=tree:0").up.commit(2)
    scene.fetched()


def kept_with_moved_tag(scene: Scene) -> None:
    scene.clone().up.commit().git("tag", "--force", "v1.2.0")
    scene.up.commit()
    scene.fetched()


def kept_with_tag_moved_from_head(scene: Scene) -> None:
    scene.up.tag("v1.3.0")
    scene.clone().up.commit().git("tag", "--force", "v1.3.0")
    scene.here("checkout", "-q", "--detach")


def kept_with_deleted_tag(scene: Scene) -> None:
    scene.up.commit().tag("v2.0.0").commit()
    scene.clone().up.git("tag", "-d", "v2.0.0")
    scene.up.commit()
    scene.fetched()


def kept_with_retagged_annotated(scene: Scene) -> None:
    scene.clone().up.git("tag", "--force", "-a", "-m", "t", "v1.2.0", "v1.2.0^{commit}")
    scene.up.commit()
    scene.fetched()


def kept_dirty(scene: Scene) -> None:
    kept_without_new_release(scene)
    (scene.ck / "pyproject.toml").write_text(SCM + "# changed\n")
    (scene.folder / "dirty").touch()


def no_tags(scene: Scene) -> None:
    scene.clone("--no-tags")


def single_branch(scene: Scene) -> None:
    scene.clone("--single-branch")


def detached(scene: Scene) -> None:
    scene.up.commit().tag("v1.3.0").commit()
    scene.clone().here("checkout", "-q", "--detach", "v1.3.0~1")


def tagged_head(scene: Scene) -> None:
    scene.up.tag("v1.3.0")
    scene.clone()


def tagged_head_shallow(scene: Scene) -> None:
    scene.up.tag("v1.3.0")
    scene.clone("--depth=1", "--branch=v1.3.0")


def no_release_at_all(scene: Scene) -> None:
    scene.up.git("tag", "-d", "v1.2.0")
    scene.clone()


def two_remotes(scene: Scene) -> None:
    kept(scene)
    shutil.copytree(scene.up.root, scene.folder / "mirror")
    scene.here("remote", "add", "mirror", f"file://{scene.folder}/mirror")


def two_remotes_of_other_names(scene: Scene) -> None:
    kept(scene)
    scene.here("remote", "rename", "origin", "upstream")
    scene.here("remote", "add", "another", scene.url)


def renamed_remote(scene: Scene) -> None:
    kept(scene)
    scene.here("remote", "rename", "origin", "upstream")


def worktree(scene: Scene) -> None:
    kept(scene)
    scene.here("worktree", "add", "-q", "--detach", str(scene.folder / "tree"))
    scene.ck = scene.folder / "tree"


def submodule(scene: Scene) -> None:
    outer = Repository(scene.folder / "outer").tag("v9.0")
    outer.git("submodule", "--quiet", "add", scene.url, "inner")
    scene.ck = outer.root / "inner"
    scene.up.commit().tag("v1.3.0").commit()
    scene.fetched()


def monorepo_other_package(scene: Scene) -> None:
    scene.up.tag("pkg-v1.2.0").commit()
    scene.clone().up.commit().tag("other-v7.0.0").commit()
    scene.fetched()


def monorepo_this_package(scene: Scene) -> None:
    scene.up.tag("pkg-v1.2.0").commit()
    scene.clone().up.commit().tag("pkg-v1.3.0").commit()
    scene.fetched()


def monorepo_cut_behind_another_package(scene: Scene) -> None:
    scene.up.tag("pkg-v1.2.0").commit(2).tag("other-v7.0.0").commit()
    scene.clone("--depth=2")


def monorepo_lacking_behind_another_package(scene: Scene) -> None:
    scene.up.tag("pkg-v1.2.0")
    scene.clone().up.commit().tag("pkg-v1.3.0").commit().tag("other-v7.0.0").commit()
    scene.here("fetch", "-q", "--no-tags", "origin", "tag", "other-v7.0.0")
    scene.fetched("--no-tags")


Make = Callable[[Scene], None]
PINNED: Final[tuple[Make, ...]] = (
    kept_without_new_release,
    kept_with_release_elsewhere,
    kept_with_old_release_lacking,
    kept_with_retagged_annotated,
    kept_treeless,
    kept_dirty,
    single_branch,
    detached,
    tagged_head,
    tagged_head_shallow,
    no_release_at_all,
)
REFUSED: Final[tuple[Make, ...]] = (
    kept,
    kept_annotated,
    kept_release_on_head,
    kept_candidate_and_release_on_head,
    kept_after_merge,
    kept_shallow,
    kept_shallow_with_cut,
    kept_partial,
    kept_with_moved_tag,
    kept_with_tag_moved_from_head,
    kept_with_deleted_tag,
    no_tags,
    two_remotes,
    two_remotes_of_other_names,
    renamed_remote,
    worktree,
    submodule,
)
CASES = (
    *((make, SCM, True) for make in PINNED),
    *((make, SCM, False) for make in REFUSED),
    *((kept, text, False) for text in (HATCH, PDM)),
    *((kept_without_new_release, text, True) for text in (HATCH, PDM)),
    (kept_with_moved_tag, PDM, False),
    (kept_with_deleted_tag, PDM, False),
    (no_tags, PDM, False),
    (tagged_head, PDM, True),
    (kept_shallow, HATCH, False),
    (monorepo_other_package, MONOREPO, True),
    (monorepo_this_package, MONOREPO, False),
    (monorepo_other_package, MONOREPO_PDM, False),
    (monorepo_cut_behind_another_package, MONOREPO_PDM, False),
    (monorepo_lacking_behind_another_package, MONOREPO_PDM, False),
)


def truth(scene: Scene, backend: str) -> str:
    """What the build itself says in a fresh, whole clone, at the commit of the checkout."""
    whole = scene.folder / "whole"
    subprocess.run(["git", "clone", "-q", "--", scene.url, whole], check=True)
    commit = scene.here("rev-parse", "HEAD")
    subprocess.run(["git", "checkout", "-q", "--detach", commit], cwd=whole, check=True)
    if (scene.folder / "dirty").exists():
        shutil.copy(scene.ck / "pyproject.toml", whole / "pyproject.toml")
    if backend.startswith(PDM):
        return ask(PDM_ORACLE, whole)
    if backend == HATCH:  # it passes no more than the directory on, here
        (whole / "pyproject.toml").write_text(SCM)
        subprocess.run(
            ["git", "update-index", "--assume-unchanged", "pyproject.toml"], cwd=whole, check=True
        )
    return ask_library(whole)


def pinned(scene: Scene, backend: str) -> ComputedVersion:
    """The version to pin; that of pdm-backend is what a build has without the disturbing tags."""
    computed = compute(scene.ck)
    if not backend.startswith(PDM):
        return computed
    with Prover(Verify.AUTO, 120.0, dict(os.environ)) as prover:
        return prover.derive(computed, allow_fallback=False)


@pytest.mark.gate(7)
@pytest.mark.parametrize(
    ("make", "backend", "is_pinned"),
    CASES,
    ids=[f"{make.__name__}-{number}" for number, (make, _, _) in enumerate(CASES)],
)
def test_a_pin_is_the_version_of_a_whole_clone(
    tmp_path: Path, make: Make, backend: str, *, is_pinned: bool
) -> None:
    if backend.startswith(PDM):
        pytest.importorskip("pdm.backend")
    scene = Scene(tmp_path, backend)
    make(scene)
    right = truth(scene, backend)
    computed = pinned(scene, backend)
    if is_pinned:
        assert computed.version == right
        return
    assert computed.version is None
    assert computed.described is not None
    (refusal,) = (each for each in computed.findings if each.severity is Severity.ERROR)
    assert refusal.remedy_kind is RemedyKind.COMMAND
    assert refusal.remedy is not None
    subprocess.run(["sh", "-ec", refusal.remedy], cwd=scene.ck, check=True, capture_output=True)
    assert pinned(scene, backend).version == right


def test_a_remote_that_is_gone_is_a_refusal_unless_head_has_the_tag(tmp_path: Path) -> None:
    scene = Scene(tmp_path).clone()
    shutil.rmtree(scene.up.root)
    computed = compute(scene.ck)
    assert (computed.version, versions.rules(computed)) == (
        None,
        {"version/missing-tags": Severity.ERROR},
    )
    assert "does not answer" in computed.findings[0].summary
    allowed = compute(scene.ck, allow_fallback=True)
    assert allowed.version == ask_library(scene.ck)
    assert allowed.is_uncertain
    scene.here("checkout", "-q", "--detach", "v1.2.0")
    assert compute(scene.ck).version == "1.2.0"


def has_ended(pid: int) -> bool:
    """Whether the process ends: a kill takes a moment, and nobody may wait for an orphan."""
    try:
        process = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return True
    gone, _ = psutil.wait_procs([process], timeout=60)
    return bool(gone)


def test_a_remote_that_wants_a_password_or_hangs_is_a_silent_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path).clone()
    scene.here("remote", "set-url", "origin", "ssh://nobody@host.invalid/r.git")
    pid_file = tmp_path / "pid"
    program = tmp_path / "ssh"
    program.write_text(f"#!/bin/sh\necho $$ >{pid_file}\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("GIT_SSH", str(program))
    monkeypatch.setattr("ci_doctor.environment.versions._REMOTE_TIMEOUT_S", 2.0)
    computed = compute(scene.ck)
    assert versions.rules(computed) == {"version/missing-tags": Severity.ERROR}
    # Nothing of it is left behind.
    assert has_ended(int(pid_file.read_text()))


def test_without_any_remote_the_clone_is_all_there_is(tmp_path: Path) -> None:
    scene = Scene(tmp_path).clone()
    scene.here("remote", "remove", "origin")
    assert compute(scene.ck).version == ask_library(scene.ck)


def test_a_tag_of_another_remote_is_no_left_over(tmp_path: Path) -> None:
    scene = Scene(tmp_path).clone()
    shutil.copytree(scene.up.root, tmp_path / "main-project")
    scene.here("remote", "add", "upstream", f"file://{tmp_path}/main-project")
    scene.up.git("tag", "-d", "v1.2.0")
    assert compute(scene.ck).version == ask_library(scene.ck)

# SPDX-License-Identifier: Apache-2.0
"""Versions of real repositories, held against what the backends themselves compute once the unparsable tags are deleted."""

import itertools
import os
import random
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from ci_doctor.environment.detection import read_project
from ci_doctor.environment.pins import ComputedVersion
from ci_doctor.environment.versions import compute_version
from ci_doctor.errors import UsageError
from ci_doctor.model.outcome import Severity

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("git") is None, reason="needs git"),
]

SCM = """
[build-system]
requires = ["setuptools>=61", "setuptools-scm>=8"]
build-backend = "setuptools.build_meta"
[project]
name = "Some.Pkg"
dynamic = ["version"]
[tool.setuptools_scm]
"""
HATCH = """
[build-system]
requires = ["hatchling", "hatch-vcs"]
build-backend = "hatchling.build"
[project]
name = "some-pkg"
dynamic = ["version"]
[tool.hatch.version]
source = "vcs"
"""
PDM = """
[build-system]
requires = ["pdm-backend"]
build-backend = "pdm.backend"
[project]
name = "some-pkg"
dynamic = ["version"]
[tool.pdm.version]
source = "scm"
"""
BAD_TAGS = (
    "nightly-cu13",
    "cu13",
    "demo1",
    "backup/v9",
    "v0.4.4-cu13",
    "nightly-$(touch${IFS}pwned)1",
    "it's;1|&<>",
    '"quoted"2"',
    "ünïcode3",
    "-leading4".lstrip("-"),
    "nightly-`id`5",
    "nightly-13",
    "nightly-2026-04-22",
)
GOOD_TAGS = (
    "v0.4.3",
    "0.5.0",
    "v1.0rc1",
    "v1.0.0",
    "release-1.2",
    "2.0.0",
    "v2.1.0.post1",
    "3.0",
    "v4.0.0+local.1",
)


@pytest.fixture(autouse=True)
def _own_git_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration of the machine, no variable that points git or a backend elsewhere, one fixed day."""
    for name in list(os.environ):
        if name.startswith(("GIT_", "PDM_BUILD", "SETUPTOOLS_SCM", "VCS_VERSIONING")):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        '[user]\nname = t\nemail = t@example.org\n[protocol "file"]\nallow = always\n[init]\ndefaultBranch = main\n'
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "none"))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")


class Repository:
    """A real repository; commits have increasing dates, so that `git describe` walks them in a known order."""

    def __init__(self, root: Path, pyproject: str = SCM, project: str = ".") -> None:
        self.root = root
        self.project = root / project
        self.project.mkdir(parents=True, exist_ok=True)
        self._clock = itertools.count(1_600_000_000, 60)
        self.git("init", "-q")
        (self.project / "pyproject.toml").write_text(pyproject)
        self.git("add", ".")
        self.commit()

    def git(self, *arguments: str) -> str:
        time = str(next(self._clock))
        return subprocess.run(
            ["git", *arguments],
            cwd=self.root,
            check=True,
            capture_output=True,
            text=True,
            env={
                **os.environ,
                "GIT_AUTHOR_DATE": f"{time} +0000",
                "GIT_COMMITTER_DATE": f"{time} +0000",
            },
        ).stdout.strip()

    def commit(self, count: int = 1) -> "Repository":
        for _ in range(count):
            self.git("commit", "-q", "--allow-empty", "-m", "c")
        return self

    def tag(self, *names: str, annotated: bool = False) -> "Repository":
        for name in names:
            self.git("tag", *(["-a", "-m", "t"] if annotated else []), "--", name)
        return self


def offending(computed: ComputedVersion) -> tuple[str, ...]:
    """The unparsable tags that were left out."""
    return computed.described.unparsable if computed.described else ()


def compute(directory: Path, *, allow_fallback: bool = False) -> ComputedVersion:
    return compute_version(read_project(directory), allow_fallback=allow_fallback)


def rules(computed: ComputedVersion) -> dict[str, Severity]:
    return {finding.rule: finding.severity for finding in computed.findings}


def without_bad_tags(repository: Repository, bad: tuple[str, ...], to: Path) -> Path:
    """A copy of the repository whose bad tags are deleted; the project's directory in it."""
    shutil.copytree(repository.root, to, symlinks=True)
    present = set(
        subprocess.run(
            ["git", "tag"], cwd=to, check=True, capture_output=True, text=True
        ).stdout.splitlines()
    )
    for name in set(bad) & present:
        subprocess.run(["git", "tag", "-d", "--", name], cwd=to, check=True, capture_output=True)
    subprocess.run(["git", "update-index", "--refresh"], cwd=to, check=False, capture_output=True)
    return to / repository.project.relative_to(repository.root)


SETUPTOOLS_SCM_ORACLE = "from setuptools_scm import Configuration, _get_version as v; print(v(Configuration.from_file('pyproject.toml'), force_write_version_files=False))"
HATCH_ORACLE = "from hatchling.metadata.core import ProjectMetadata as M; from hatchling.plugin.manager import PluginManager as P; import os; print(M(os.getcwd(), P()).version)"
PDM_ORACLE = (
    "import pathlib; from pdm.backend.base import Builder; b = Builder('.'); "
    "from pdm.backend.hooks.version import DynamicVersionBuildHook as H; c = b.build_context(pathlib.Path('/tmp')); "
    "H().pdm_build_initialize(c); print(b.config.metadata['version'])"
)


def ask(oracle: str, directory: Path) -> str:
    """What the backend itself says, in a process of its own."""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", oracle],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip().splitlines()[-1]


def ask_library(directory: Path) -> str:
    """The same as SETUPTOOLS_SCM_ORACLE, in this process, for tests that ask often."""
    from setuptools_scm import Configuration, _get_version

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        version = _get_version(
            Configuration.from_file(directory / "pyproject.toml"), force_write_version_files=False
        )
    assert version is not None
    return version


@pytest.mark.parametrize("tag", BAD_TAGS)
@pytest.mark.gate(3)
def test_an_unparsable_tag_is_as_if_it_did_not_exist(tmp_path: Path, tag: str) -> None:
    repository = Repository(tmp_path / "r").tag("v0.4.3").commit(2).tag(tag).commit()
    computed = compute(repository.root)
    assert computed.version == ask_library(without_bad_tags(repository, (tag,), tmp_path / "copy"))
    assert computed.version is not None
    assert computed.version.startswith("0.4.4.dev3+g")
    assert not list(tmp_path.rglob("pwned"))


def test_the_offending_tag_is_named_with_a_remedy_that_works(tmp_path: Path) -> None:
    repository = (
        Repository(tmp_path / "r").tag("v0.4.3").commit().tag("nightly-cu13", "nightly").commit()
    )
    computed = compute(repository.root)
    assert offending(computed) == ("nightly-cu13",)
    finding = next(each for each in computed.findings if each.rule == "version/unparsable-tag")
    assert finding.severity is Severity.WARNING
    assert "would pick 'nightly-cu13', and fail or be misled" in finding.summary
    assert finding.remedy is not None
    (repository.root / "pyproject.toml").write_text(
        SCM.replace("[tool.setuptools_scm]\n", finding.remedy + "\n")
    )
    repository.git("commit", "-qam", "fix")
    assert rules(compute(repository.root)) == {}
    assert ask_library(repository.root) == compute(repository.root).version


@pytest.mark.parametrize(
    ("settings", "tags", "expected"),
    [
        # A far one, after which there is a release.
        ("", ("nightly-cu13", "v1.0"), {"version/unparsable-tag": Severity.NOTE}),
        # Plain numbers are versions where a project counts that way.
        ("", ("v254", "v255"), {}),
        ('version_scheme = "own_module:scheme"', ("v1.0",), {"version/custom-scheme": Severity.WARNING}),
        ("", ("v1.0.dev7",), {"version/not-computable": Severity.ERROR}),
        ("no_such_setting = 1", ("v1.0",), {"version/not-computable": Severity.ERROR}),
    ],
)  # fmt: skip
def test_what_a_line_of_tags_comes_to(
    tmp_path: Path, settings: str, tags: tuple[str, ...], expected: dict[str, Severity]
) -> None:
    repository = Repository(tmp_path / "r", f"{SCM}{settings}\n")
    for tag in tags:
        repository.tag(tag).commit()
    assert rules(compute(repository.root)) == expected


def test_an_unparsable_tag_on_another_branch_is_not_named(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "r").tag("v1.0").commit()
    repository.git("checkout", "-q", "-b", "side")
    repository.commit().tag("nightly-cu13").git("checkout", "-q", "main")
    assert compute(repository.root).findings == ()


@pytest.mark.nightly
def test_thousands_of_unparsable_tags_fit_one_command_line(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "r").tag("v1.0").commit()
    head = repository.git("rev-parse", "HEAD")
    names = [
        f"{family}-{number}-{'x' * 30}"
        for family in ("nightly", "v1", "pr/cu")
        for number in range(1500)
    ]
    lines = "".join(f"create refs/tags/{name} {head}\n" for name in names)
    subprocess.run(
        ["git", "update-ref", "--stdin"], cwd=repository.root, input=lines, text=True, check=True
    )
    repository.git("pack-refs", "--all")
    repository.commit()
    computed = compute(repository.root)
    assert computed.version is not None
    assert computed.version.startswith("1.1.dev2+g")
    assert len(offending(computed)) == len(names)
    summary = computed.findings[0].summary
    assert "more" in summary
    assert len(summary) < 1000


@pytest.mark.nightly
def test_bad_tags_do_not_use_up_the_candidates_of_describe(tmp_path: Path) -> None:
    # `git describe` weighs ten tagged commits; these would be ten, all nearer in time than the good tag.
    repository = Repository(tmp_path / "r").tag("v1.0").commit()
    repository.git("checkout", "-q", "-b", "side")
    repository.commit().tag("v2.0").commit()
    repository.git("checkout", "-q", "main")
    bad = tuple(f"nightly-cu{number}" for number in range(15))
    for name in bad:
        repository.commit().tag(name)
    repository.git("merge", "-q", "--no-ff", "-m", "m", "side")
    repository.commit()
    computed = compute(repository.root)
    assert computed.version == ask_library(without_bad_tags(repository, bad, tmp_path / "copy"))


@pytest.mark.parametrize("bad", [(), ("nightly-cu13",)])
def test_without_a_good_tag_it_is_what_the_library_gives(
    tmp_path: Path, bad: tuple[str, ...]
) -> None:
    repository = Repository(tmp_path / "r").commit().tag(*bad).commit()
    computed = compute(repository.root)
    assert computed.version == ask_library(without_bad_tags(repository, bad, tmp_path / "copy"))
    expected = {"version/no-usable-tag", *(["version/unparsable-tag"] if bad else [])}
    assert set(rules(computed)) == expected


def test_a_repository_without_commits(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path / "r")], check=True)
    (tmp_path / "r" / "pyproject.toml").write_text(SCM)
    assert compute(tmp_path / "r").version == ask_library(tmp_path / "r")


@pytest.mark.parametrize("tag", ["v13", "13"])
def test_a_bare_number_among_releases_is_pinned_and_reported(tmp_path: Path, tag: str) -> None:
    repository = Repository(tmp_path / "r").tag("v0.4.3").commit().tag(tag).commit()
    computed = compute(repository.root)
    assert computed.version == ask_library(repository.root)
    assert rules(computed) == {"version/suspicious-tag": Severity.WARNING}


@pytest.mark.parametrize(
    "settings", ["tag_regex = '^nightly-[\\d-]+-(?P<version>\\d+)$'", "tag.strict = false"]
)
def test_a_regex_of_the_projects_own_is_its_word_on_versions(tmp_path: Path, settings: str) -> None:
    repository = (
        Repository(tmp_path / "r", SCM + settings + "\n").tag("nightly-2026-04-22").commit()
    )
    assert compute(repository.root).version == ask_library(repository.root)


def test_a_dirty_tree_is_reported(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "r").tag("v1.0").commit()
    (repository.root / "pyproject.toml").write_text(SCM + "\n")
    computed = compute(repository.root)
    assert computed.version == ask_library(repository.root)
    assert computed.version is not None
    assert computed.version.endswith(".d20231114")
    assert rules(computed) == {"version/dirty-tree": Severity.WARNING}


def cloned(repository: Repository, to: Path, option: str = "--no-tags") -> Path:
    url = f"file://{repository.root}"
    subprocess.run(["git", "clone", "-q", option, url, str(to)], check=True)
    return to


def clone_shallow(repository: Repository, to: Path, depth: int = 1) -> Path:
    return cloned(repository, to, f"--depth={depth}")


def test_a_shallow_clone_without_a_tag_on_head_is_refused(tmp_path: Path) -> None:
    shallow = clone_shallow(Repository(tmp_path / "r").tag("v1.0").commit(), tmp_path / "s")
    assert compute(shallow).version is None
    assert rules(compute(shallow)) == {"version/shallow-clone": Severity.ERROR}
    allowed = compute(shallow, allow_fallback=True)
    assert allowed.version == ask_library(shallow)
    assert rules(allowed)["version/shallow-clone"] is Severity.WARNING


def test_a_shallow_clone_that_is_cut_between_head_and_its_tag_is_refused(tmp_path: Path) -> None:
    # Two lines of history: the tag is three commits deep on one, and the cut is on the other.
    repository = Repository(tmp_path / "r").tag("v1.0").commit(2)
    repository.git("checkout", "-q", "-b", "side")
    repository.commit(6).git("checkout", "-q", "main")
    repository.tag("v1.1").git("merge", "-q", "--no-ff", "-m", "m", "side")
    shallow = clone_shallow(repository, tmp_path / "s", depth=4)
    assert "v1.1" in subprocess.check_output(["git", "tag"], cwd=shallow, text=True)
    assert rules(compute(shallow)).get("version/shallow-clone") is Severity.ERROR


def test_a_clone_without_the_tags_of_its_remote_is_refused(tmp_path: Path) -> None:
    clone = cloned(Repository(tmp_path / "r").tag("v1.0").commit(), tmp_path / "c")
    computed = compute(clone)
    assert computed.version is None
    assert rules(computed) == {"version/missing-tags": Severity.ERROR}
    assert computed.findings[0].remedy == "git fetch --tags origin"
    allowed = compute(clone, allow_fallback=True)
    assert allowed.version == ask_library(clone)
    assert rules(allowed) == {"version/missing-tags": Severity.WARNING}
    subprocess.run(["git", "fetch", "-q", "--tags"], cwd=clone, check=True)
    assert compute(clone).version == compute(tmp_path / "r").version


def test_a_clone_whose_remote_has_no_release_is_pinned_with_a_note(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "r").commit().tag("nightly-cu13").commit()
    clone = cloned(repository, tmp_path / "c")
    computed = compute(clone)
    assert computed.version == ask_library(clone)
    assert rules(computed) == {"version/no-usable-tag": Severity.NOTE}
    (finding,) = computed.findings
    assert "neither this clone nor its remote origin has a tag of a release" in finding.summary
    # `git fetch --tags` would fetch nothing.
    assert finding.remedy is None


def test_a_release_that_is_tagged_here_alone_is_a_warning(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "r").commit()
    clone = cloned(repository, tmp_path / "c")
    for words in (["checkout", "-q", "--orphan", "side"], ["tag", "v1.0", "main"]):
        subprocess.run(["git", *words], cwd=clone, check=True)
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    commit = ["git", *identity, "commit", "-qm", "another history"]
    subprocess.run(commit, cwd=clone, check=True)
    assert rules(compute(clone)) == {"version/no-usable-tag": Severity.WARNING}


def test_a_release_of_another_branch_is_not_missed(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "r").commit()
    repository.git("checkout", "-q", "-b", "side")
    repository.commit().tag("v1.0").git("checkout", "-q", "main")
    clone = cloned(repository.commit(), tmp_path / "c")
    assert rules(compute(clone)) == {"version/no-usable-tag": Severity.WARNING}


@pytest.mark.parametrize(
    ("before", "tags", "after", "depth", "is_pinned"),
    [
        (1, ("nightly-cu13",), 0, 1, False),
        (1, ("v1.0", "nightly-cu13"), 0, 1, True),
        (3, ("v1.0",), 2, 4, True),
    ],
)
def test_a_shallow_clone_is_pinned_if_it_holds_its_tag(
    tmp_path: Path, before: int, tags: tuple[str, ...], after: int, depth: int, *, is_pinned: bool
) -> None:
    repository = Repository(tmp_path / "r").commit(before).tag(*tags).commit(after)
    shallow = clone_shallow(repository, tmp_path / "s", depth)
    assert ("version/shallow-clone" in rules(compute(shallow))) == (not is_pinned)
    assert compute(shallow).version == (compute(repository.root).version if is_pinned else None)


def test_a_shallow_clone_is_never_fetched_by_us(tmp_path: Path) -> None:
    settings = SCM + '[tool.setuptools_scm.scm.git]\npre_parse = "fetch_on_shallow"\n'
    shallow = clone_shallow(
        Repository(tmp_path / "r", settings).tag("v1.0").commit(), tmp_path / "s"
    )
    assert rules(compute(shallow)) == {"version/shallow-clone": Severity.ERROR}
    assert (shallow / ".git" / "shallow").exists()


@pytest.mark.nightly
def test_a_shallow_worktree_is_recognised(tmp_path: Path) -> None:
    shallow = clone_shallow(Repository(tmp_path / "r").tag("v1.0").commit(), tmp_path / "s")
    subprocess.run(
        ["git", "worktree", "add", "-q", str(tmp_path / "w")],
        cwd=shallow,
        check=True,
        capture_output=True,
    )
    assert rules(compute(tmp_path / "w")) == {"version/shallow-clone": Severity.ERROR}


@pytest.mark.nightly
def test_worktrees_and_submodules_work(tmp_path: Path) -> None:
    inner = Repository(tmp_path / "inner").tag("v0.4.3").commit().tag("nightly-cu13").commit()
    inner.git("worktree", "add", "-q", str(tmp_path / "w"))
    assert compute(tmp_path / "w").version == compute(inner.root).version
    outer = Repository(tmp_path / "outer").tag("v9.0")
    outer.git("submodule", "--quiet", "add", f"file://{inner.root}", "vendored")
    assert compute(outer.root / "vendored").version == compute(inner.root).version


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param('root = ".."', id="root"),
        pytest.param("search_parent_directories = true", id="search"),
        pytest.param('root = ".."\ntag = {prefix = "pkg-a-"}', id="prefix"),
        pytest.param('root = ".."\ntag_regex = "^pkg-a-(?P<version>[0-9.]+)$"', id="regex"),
        pytest.param(
            'root = ".."\ngit_describe_command = "git describe --dirty --tags --long --match \'pkg-a-*\'"',
            id="string-command",
        ),
        pytest.param(
            'root = ".."\ngit_describe_command = ["git", "describe", "--tags", "--long", "--match=pkg-a-*", "HEAD"]',
            id="command",
        ),
        pytest.param(
            'root = ".."\ntag = {strict = true, prefix = "pkg-a-"}\nlocal_scheme = "no-local-version"',
            id="strict",
        ),
        pytest.param('root = ".."\nscm = {git = {distance_scope = true}}', id="scope"),
    ],
)
@pytest.mark.gate(3)
def test_several_distributions_in_one_repository(tmp_path: Path, settings: str) -> None:
    repository = Repository(tmp_path / "r", f"{SCM}{settings}\n", project="a")
    bad = ("pkg-a-latest1", "pkg-b-cu13")
    repository.tag("pkg-a-1.0").commit().tag("pkg-b-2.0").commit().tag(*bad).commit()
    expected = [*bad, "pkg-b-2.0"] if "tag_regex" in settings else bad
    computed = compute(repository.project)
    assert computed.version == ask_library(
        without_bad_tags(repository, tuple(expected), tmp_path / "copy")
    )


@pytest.mark.parametrize(
    "settings",
    [
        *(
            f'version_scheme = "{name}"'
            for name in (
                "post-release",
                "no-guess-dev",
                "only-version",
                "calver-by-date",
                "semver-pep440",
            )
        ),
        'version_scheme = "semver-pep440-release-branch"',
        *(
            f'local_scheme = "{name}"'
            for name in ("no-local-version", "dirty-tag", "node-and-timestamp")
        ),
        'local_scheme = ["fail-on-uncommitted-changes", "node-and-date"]',
        'fallback_version = "7.7"',
        "normalize = false",
        'version_file = "made.py"',
        'parentdir_prefix_version = "some-"',
    ],
)
@pytest.mark.gate(4)
def test_schemes_and_settings_are_the_librarys(tmp_path: Path, settings: str) -> None:
    for index, good in enumerate((["v1.2.3"], [])):
        repository = (
            Repository(tmp_path / f"r{index}", f"{SCM}{settings}\n")
            .tag(*good)
            .commit()
            .tag("nightly-cu13")
            .commit()
        )
        copy = without_bad_tags(repository, ("nightly-cu13",), tmp_path / f"copy{index}")
        assert compute(repository.root).version == ask_library(copy)
        assert not (repository.root / "made.py").exists()


def test_a_command_that_is_not_git_is_run_as_it_is(tmp_path: Path) -> None:
    settings = 'git_describe_command = ["echo", "v3.2.1-4-gabcdef0"]\n'
    repository = Repository(tmp_path / "r", SCM + settings).tag("v1.0").commit().tag("nightly-cu13")
    assert compute(repository.root).version == ask_library(repository.root)


def test_pretend_variables_and_git_variables_do_not_reach_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = Repository(tmp_path / "r").tag("v1.0")
    monkeypatch.setenv("SETUPTOOLS_SCM_PRETEND_VERSION", "9.9")
    monkeypatch.setenv("SETUPTOOLS_SCM_PRETEND_VERSION_FOR_SOME_PKG", "9.9")
    monkeypatch.setenv("SETUPTOOLS_SCM_PRETEND_METADATA", "{distance = 5}")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.chdir(tmp_path)
    assert compute(repository.root).version == "1.0"


def test_no_repository_is_an_error_that_names_the_one_above(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "pyproject.toml").write_text(SCM)
    assert rules(compute(tmp_path / "plain")) == {"version/no-repository": Severity.ERROR}
    repository = Repository(tmp_path / "r", project="deep/er").tag("v1.0")
    finding = compute(repository.project).findings[0]
    assert finding.rule == "version/no-repository"
    assert (
        finding.remedy
        == 'root = "../.."  # in [tool.setuptools_scm], or search_parent_directories = true'
    )
    hatch = Repository(tmp_path / "h", HATCH, project="sub").tag("v1.0")
    assert "# in [tool.hatch.version.raw-options]" in (
        compute(hatch.project).findings[0].remedy or ""
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("PKG-INFO", "Metadata-Version: 2.1\nName: x\nVersion: 5.6\n"),
        ("pyproject.toml", SCM + 'fallback_version = "5.6"\n'),
    ],
)
def test_without_git_the_files_of_the_project_speak(
    tmp_path: Path, name: str, content: str
) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "pyproject.toml").write_text(SCM)
    (tmp_path / "p" / name).write_text(content)
    computed = compute(tmp_path / "p")
    assert computed.version == "5.6"
    assert rules(computed) == {}


def test_no_git_program_is_a_usage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = Repository(tmp_path / "r").tag("v1.0")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="no git on PATH"):
        compute(repository.root)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a directory to another user")
def test_a_repository_of_another_user(tmp_path: Path) -> None:
    scm, pdm = Repository(tmp_path / "r").tag("v1.0"), Repository(tmp_path / "p", PDM).tag("v1.0")
    for path in itertools.chain([scm.root, pdm.root], scm.root.rglob("*"), pdm.root.rglob("*")):
        os.chown(path, 12345, 12345)
    assert compute(scm.root).version == "1.0"
    assert rules(compute(pdm.root)) == {"version/other-owner": Severity.ERROR}


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "root='.'",
        "'.'",
        "local_scheme='no-local-version'",
        "write_to='x.py'",
        "root='..', relative_to='sub/x.py'",
    ],
)
@pytest.mark.gate(2)
def test_a_setup_script_that_calls_get_version(tmp_path: Path, arguments: str) -> None:
    repository = Repository(tmp_path / "r", '[tool.setuptools_scm]\nlocal_scheme = "dirty-tag"\n')
    repository.tag("v1.0").commit().tag("nightly-cu13").commit()
    source = f"from setuptools import setup\nimport setuptools_scm as s\nsetup(name='vllm', version=s.get_version({arguments}))\n"
    (repository.root / "setup.py").write_text(source)
    oracle = f"import setuptools_scm; print(setuptools_scm.get_version({arguments}))"
    copy = without_bad_tags(repository, ("nightly-cu13",), tmp_path / "copy")
    assert compute(repository.root).version == ask(oracle, copy)
    assert not (repository.root / "x.py").exists()


@pytest.mark.parametrize(
    "value",
    [
        "True",
        "{'local_scheme': 'no-local-version'}",
        "dict(version_scheme='post-release')",
        "{'root': '.', 'relative_to': __file__}",
    ],
)
@pytest.mark.gate(2)
def test_a_setup_script_with_the_keyword(tmp_path: Path, value: str) -> None:
    repository = Repository(tmp_path / "r", "").tag("v1.0").commit().tag("nightly-cu13").commit()
    source = f"from setuptools import setup\nsetup(name='older', use_scm_version={value}, py_modules=[])\n"
    (repository.root / "setup.py").write_text(source)
    copy = without_bad_tags(repository, ("nightly-cu13",), tmp_path / "copy")
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "setup.py", "--version"],
        cwd=copy,
        capture_output=True,
        text=True,
        check=True,
    )
    assert compute(repository.root).version == ran.stdout.strip().splitlines()[-1]


@pytest.mark.parametrize(
    "settings",
    [
        "",
        'tag-pattern = "^pkg-(?P<version>.*)$"',
        'fallback-version = "8.8"',
        "[tool.hatch.version.raw-options]\nlocal_scheme = 'no-local-version'",
        "[tool.hatch.version.raw-options]\ngit_describe_command = ['git', 'describe', '--tags', '--long', '--match', '*[0-9].*']",
    ],
)
@pytest.mark.gate(2)
def test_hatch_vcs(tmp_path: Path, settings: str) -> None:
    pytest.importorskip("hatch_vcs")
    repository = (
        Repository(tmp_path / "r", f"{HATCH}{settings}\n")
        .tag("pkg-0.1")
        .commit()
        .tag("v1.0")
        .commit()
    )
    bad = ("nightly-cu13", *(["v1.0"] if "tag-pattern" in settings else []))
    repository.tag("nightly-cu13").commit()
    copy = without_bad_tags(repository, bad, tmp_path / "copy")
    assert compute(repository.root).version == ask(HATCH_ORACLE, copy)


def build_history(repository: Repository, chance: random.Random) -> None:
    """A random history: branches, merges, annotated and lightweight tags, some of them on one commit."""
    names = chance.sample([*BAD_TAGS, *GOOD_TAGS], k=chance.randint(2, 14))
    branches = ["main"]
    for step in range(chance.randint(4, 14)):
        match chance.randint(0, 4):
            case 0:
                branches.append(f"b{step}")
                repository.git("checkout", "-q", "-b", branches[-1])
            case 1:
                repository.git("checkout", "-q", chance.choice(branches))
            case 2:
                repository.git("merge", "-q", "--no-ff", "-m", "m", chance.choice(branches))
            case _:
                repository.commit(chance.randint(1, 3))
        while names and chance.random() < 0.6:
            repository.tag(names.pop(), annotated=chance.random() < 0.5)
    if chance.random() < 0.3:
        repository.git("pack-refs", "--all")
    if chance.random() < 0.2:
        (repository.root / "pyproject.toml").write_text(SCM + "# dirty\n")


@pytest.mark.parametrize("seed", range(int(os.environ.get("CI_DOCTOR_VERSION_EXAMPLES", "15"))))
@pytest.mark.gate(2)
def test_any_history_is_read_as_if_the_bad_tags_were_deleted(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    settings = chance.choice(
        [
            "",
            "",
            "",
            "[tool.setuptools_scm.tag]\nstrict = true\n",
            'version_scheme = "post-release"\n',
        ]
    )
    repository = Repository(tmp_path / "r", SCM + settings)
    build_history(repository, chance)
    copy = without_bad_tags(repository, BAD_TAGS, tmp_path / "copy")
    computed = compute(repository.root)
    assert computed.described is not None
    assert computed.described.version == ask_library(copy)
    # post-release makes 2.1.0.post1.post5 of v2.1.0.post1, which no build accepts.
    assert computed.version == (
        None if "version/invalid-pin" in rules(computed) else computed.described.version
    )

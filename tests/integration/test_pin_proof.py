# SPDX-License-Identifier: Apache-2.0
"""Pins that are tried by real builds of metadata, with backends that are installed beside the suite."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ci_doctor.environment.determinism import SetupEnvSettings, Verify
from ci_doctor.environment.metadata_build import Bench, InstalledPackages
from ci_doctor.environment.preparation import Preparation, prepare
from ci_doctor.errors import PreparationError
from ci_doctor.model.outcome import Severity
from ci_doctor.system import clock
from tests.integration.test_versions import HATCH, PDM

pytestmark = pytest.mark.integration

BAD = "nightly-cu13"
SETUPTOOLS = """
[build-system]
requires = ["setuptools"{more}]
build-backend = "setuptools.build_meta"
"""
SCM = SETUPTOOLS.format(more=', "setuptools-scm>=8"')
PLAIN = SETUPTOOLS.format(more="")
SCM_PROJECT = SCM + '[project]\nname = "my-pkg"\ndynamic = ["version"]\n[tool.setuptools_scm]\n'
VERSION_FILE = SCM_PROJECT + 'version_file = "_version.py"\n'
HATCH_PACKAGES = HATCH + '[tool.hatch.build.targets.wheel]\npackages = ["."]\n'


class Checkout:
    """A repository with the tag v1.2.3, then the bad tag on a later commit, then one commit more."""

    def __init__(self, root: Path, **files: str) -> None:
        self.root = root
        root.mkdir()
        self.git("init", "-q")
        for name, text in files.items():
            (root / name.replace("__", ".")).write_text(textwrap.dedent(text))
        self.git("add", ".")
        for tag in ("v1.2.3", BAD, None):
            self.git("commit", "-q", "--allow-empty", "-m", "c")
            if tag is not None:
                self.git("tag", tag)

    def git(self, *arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=self.root, check=True, capture_output=True, text=True
        ).stdout.strip()

    def prepare(self, verify: Verify = Verify.AUTO, **environ: str) -> Preparation:
        settings = SetupEnvSettings(projects=(str(self.root),), verify=verify)
        # No installer: what is not installed beside the suite must not be fetched.
        path = os.environ["PATH"]
        return prepare(settings, {**os.environ, "PATH": path, **environ})


def pin(preparation: Preparation) -> dict[str, str]:
    return {name: value for name, value in preparation.exports.items() if "PRETEND_VERSION" in name}


CALLABLES = """
    from setuptools import setup
    def scheme(version):
        return version.format_next_version(lambda tag: "9." + str(tag.tag), fmt="{guessed}.dev{distance}")
    def local(version):
        return ""
    setup(name="my-pkg", use_scm_version={"version_scheme": scheme, "local_scheme": local})
"""


@pytest.mark.nightly
def test_options_that_only_the_script_knows_are_computed_by_a_build(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path / "r", pyproject__toml=SCM, setup__py=CALLABLES)
    preparation = checkout.prepare()
    assert pin(preparation) == {"SETUPTOOLS_SCM_PRETEND_VERSION_FOR_MY_PKG": "9.1.2.3.dev2"}
    (proof,) = preparation.proofs
    assert proof.proven, proof


def test_a_pin_that_the_build_takes_is_proven_and_nothing_is_written(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path / "r", pyproject__toml=VERSION_FILE)
    preparation = checkout.prepare()
    (proof,) = preparation.proofs
    assert (proof.project, proof.proven, proof.reason) == ("my-pkg", True, None)
    assert checkout.git("status", "--porcelain", "--ignored") == ""
    assert BAD in checkout.git("tag")


IGNORES_THE_PIN = """
    import os
    for name in list(os.environ):
        if "PRETEND" in name:
            del os.environ[name]
    from setuptools import setup
    setup(name="my-pkg", use_scm_version=True)
"""


@pytest.mark.nightly
def test_a_build_that_does_not_take_the_pin_is_an_error_whose_remedy_runs_nothing_of_a_tag(
    tmp_path: Path,
) -> None:
    checkout = Checkout(tmp_path / "r", pyproject__toml=SCM, setup__py=IGNORES_THE_PIN)
    named = "x1-$(touch${IFS}pwned)"
    checkout.git("tag", "--delete", BAD)
    checkout.git("tag", named, "HEAD~1")
    with pytest.raises(PreparationError) as caught:
        checkout.prepare()
    (broken,) = (each for each in caught.value.findings if each.rule == "version/broken-build")
    assert broken.severity is Severity.ERROR
    assert [each.excerpt for each in broken.evidence] == [f"refs/tags/{named}"]
    subprocess.run(["sh", "-c", broken.remedy or "false"], cwd=checkout.root, check=True)
    assert checkout.git("tag") == "v1.2.3"
    assert not (checkout.root / "pwned").exists()


DESCRIBES = """
    import subprocess
    from setuptools import setup
    found = subprocess.check_output(["git", "describe", "--tags"{match}], text=True).strip()
    setup(name="my-pkg", version=found.split("-")[0].lstrip("v") if {trusting} else found.replace("-", "+", 1).replace("-", "."))
"""


@pytest.mark.nightly
def test_code_that_breaks_on_the_tag_is_an_error_and_code_that_bears_it_a_warning(
    tmp_path: Path,
) -> None:
    script = DESCRIBES.format(match="", trusting=False)
    checkout = Checkout(tmp_path / "breaks", pyproject__toml=PLAIN, setup__py=script)
    with pytest.raises(PreparationError) as caught:
        checkout.prepare()
    assert "version/broken-build" in {each.rule for each in caught.value.findings}
    script = DESCRIBES.format(match=', "--match", "v*"', trusting=True)
    preparation = Checkout(tmp_path / "bears", pyproject__toml=PLAIN, setup__py=script).prepare()
    assert preparation.proofs[0].proven
    severities = [each.severity for each in preparation.findings if "version/" in each.rule]
    assert severities == [Severity.WARNING]


MISSING = PLAIN.replace(
    '"setuptools"', '"setuptools", "no-such-package-of-ci-doctor @ file:///nowhere"'
)


@pytest.mark.nightly
def test_an_unpinned_project_that_cannot_be_built_is_refused_if_its_nearest_tag_is_bad(
    tmp_path: Path,
) -> None:
    script = DESCRIBES.format(match="", trusting=False)
    checkout = Checkout(tmp_path / "r", pyproject__toml=MISSING, setup__py=script)
    with pytest.raises(PreparationError) as caught:
        checkout.prepare(verify=Verify.AUTO)
    assert f"its build would meet the tag '{BAD}'" in caught.value.message
    assert checkout.prepare(verify=Verify.NEVER).exports["PYTHONHASHSEED"] == "0"


@pytest.mark.nightly
def test_a_pinned_project_whose_requirements_are_not_here_says_that_it_was_not_tried(
    tmp_path: Path,
) -> None:
    toml = SCM_PROJECT.replace("setuptools-scm>=8", "setuptools-scm<8,>=7")
    preparation = Checkout(tmp_path / "r", pyproject__toml=toml).prepare()
    (proof,) = preparation.proofs
    assert not proof.proven
    assert proof.reason is not None
    assert "the build requirement setuptools-scm<8,>=7 is not installed here" in proof.reason


@pytest.mark.nightly
def test_a_build_that_fails_with_and_without_the_tags_is_not_blamed_on_them(tmp_path: Path) -> None:
    script = DESCRIBES.format(match="", trusting=False) + "    raise SystemExit('no compiler')\n"
    checkout = Checkout(tmp_path / "r", pyproject__toml=PLAIN, setup__py=script)
    preparation = checkout.prepare()
    assert "version/not-proven" in {each.rule for each in preparation.findings}
    assert "version/broken-build" not in {each.rule for each in preparation.findings}


BACKEND = """
import os
def build_wheel(*arguments): ...
def get_requires_for_build_wheel(settings=None): return {requires}
def prepare_metadata_for_build_wheel(place, settings=None):
    os.mkdir(place + "/x")
    open(place + "/x/METADATA", "w").write("Name: x")
    return {name}
"""


@pytest.mark.parametrize(
    ("requires", "name", "words"),
    [
        ("None", "'x'", "in no list of texts"),
        ("[1]", "'x'", "in no list of texts"),
        ("[]", "None", "no METADATA"),
        ("[]", "'y'", "no METADATA"),
        ("[]", "'x'", "names no version"),
    ],
)
@pytest.mark.gate(2)
def test_a_backend_that_answers_wrongly_is_a_build_that_fails(
    tmp_path: Path, requires: str, name: str, words: str
) -> None:
    project, place = tmp_path / "project", tmp_path / "bench"
    project.mkdir()
    place.mkdir()
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n'
    )
    (project / "own.py").write_text(BACKEND.format(requires=requires, name=name))
    bench = Bench(
        project,
        place,
        InstalledPackages(),
        deadline=clock.now() + 60,
        is_demanded=False,
        is_needed=False,
    )
    built = bench.build(os.environ)
    assert built.version is None
    assert words in (built.failure or "")


@pytest.mark.nightly
def test_a_build_that_hangs_is_ended_at_the_time_limit(tmp_path: Path) -> None:
    script = "import time\ntime.sleep(3600)\n"
    scm = "from setuptools import setup\nsetup(name='my-pkg', use_scm_version=True)\n"
    checkout = Checkout(tmp_path / "r", pyproject__toml=SCM, setup__py=script + scm)
    settings = SetupEnvSettings(
        projects=(str(checkout.root),), verify=Verify.AUTO, verify_timeout="1s"
    )
    (proof,) = prepare(settings, dict(os.environ)).proofs
    assert proof.reason is not None
    assert "time limit" in proof.reason


@pytest.mark.parametrize("way", ["worktree", "shallow", "dirty", "below", "detached"])
@pytest.mark.nightly
def test_the_copy_has_the_version_of_the_checkout(tmp_path: Path, way: str) -> None:
    checkout = Checkout(tmp_path / "r", pyproject__toml=SCM_PROJECT)
    place = tmp_path / way
    if way == "worktree":
        checkout.git("worktree", "add", "-q", str(place))
    elif way == "shallow":
        url = f"file://{checkout.root}"
        checkout.git("clone", "-q", "--depth=3", url, str(place))
    elif way == "dirty":
        place = checkout.root
        (place / "pyproject.toml").write_text(SCM_PROJECT + 'fallback_version = "0.1"\n')
    elif way == "below":
        place = checkout.root / "below"
        place.mkdir()
        (place / "pyproject.toml").write_text(SCM_PROJECT + 'root = ".."\n')
        checkout.git("add", ".")
        checkout.git("commit", "-qm", "below")
    else:
        place = checkout.root
        checkout.git("checkout", "-q", "--detach")
    preparation = prepare(SetupEnvSettings(projects=(str(place),)), dict(os.environ))
    (proof,) = preparation.proofs
    assert proof.proven, proof


@pytest.mark.nightly
def test_a_checkout_that_is_too_large_to_copy_is_not_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci_doctor.environment.metadata_build._MOST_BYTES", 10)
    (proof,) = Checkout(tmp_path / "r", pyproject__toml=SCM_PROJECT).prepare().proofs
    assert "too large to copy" in (proof.reason or "")


@pytest.mark.parametrize("toml", [HATCH_PACKAGES, PDM], ids=["hatch-vcs", "pdm-backend"])
@pytest.mark.nightly
def test_other_backends_are_proven_too(tmp_path: Path, toml: str) -> None:
    (proof,) = Checkout(tmp_path / "r", pyproject__toml=toml).prepare().proofs
    assert proof.proven, proof


@pytest.mark.nightly
def test_the_pin_keeps_the_commit_in_a_version_file(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path / "r", pyproject__toml=VERSION_FILE)
    preparation = checkout.prepare(verify=Verify.NEVER)
    head = checkout.git("rev-parse", "HEAD")
    code = "from setuptools.build_meta import prepare_metadata_for_build_wheel as p; p('.')"
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=checkout.root,
        env={**os.environ, **preparation.exports},
        check=True,
        capture_output=True,
    )
    written = (checkout.root / "_version.py").read_text()
    assert f"commit_id = 'g{head[:9]}'" in written

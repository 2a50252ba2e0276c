# SPDX-License-Identifier: Apache-2.0

import base64
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from ci_doctor.drift.reading import (
    SystemPackages,
    content_hash,
    databases,
    read_packages,
    read_system_packages,
    recorded_files,
)
from ci_doctor.drift.snapshot import digest_of
from tests.support.packages import write_script
from tests.support.wheels import add_package


def test_each_distribution_has_its_version_and_the_files_that_no_installer_writes(
    tmp_path: Path,
) -> None:
    add_package(tmp_path, "some-thing", "1.2.3")

    package = read_packages([tmp_path, tmp_path / "none"], contents=False)["some-thing"]

    assert package.version == "1.2.3"
    assert sorted(package.files) == [
        "some_thing-1.2.3.dist-info/METADATA",
        "some_thing-1.2.3.dist-info/WHEEL",
        "some_thing/__init__.py",
    ]


def test_a_file_that_was_patched_in_place_or_is_gone_is_seen_by_its_content_alone(
    tmp_path: Path,
) -> None:
    module = add_package(tmp_path, "x", "1")
    before = read_packages([tmp_path], contents=True)["x"]
    module.write_text("VERSION = 'patched'\n")

    by_record = read_packages([tmp_path], contents=False)["x"]
    by_content = read_packages([tmp_path], contents=True)["x"]
    module.unlink()
    without = read_packages([tmp_path], contents=True)["x"]

    assert before.files == by_record.files
    assert by_content.files != before.files
    assert without.files["x/__init__.py"] == "missing"


def test_of_two_of_one_name_the_first_counts_and_the_other_is_named(tmp_path: Path) -> None:
    for name, version in (("first", "2"), ("second", "1")):
        (tmp_path / name).mkdir()
        add_package(tmp_path / name, "x", version)

    package = read_packages([tmp_path / "first", tmp_path / "second"], contents=False)["x"]

    assert (package.version, package.further_versions) == ("2", ("1",))


def test_an_origin_in_a_repository_has_its_commit(tmp_path: Path) -> None:
    add_package(tmp_path, "x", "1")
    origin = {"url": "https://e.org/x.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}
    (tmp_path / "x-1.dist-info" / "direct_url.json").write_text(json.dumps(origin))

    assert read_packages([tmp_path], contents=False)["x"].commit == "abc"


def test_an_editable_installation_stands_for_the_commit_of_its_checkout(tmp_path: Path) -> None:
    checkout = tmp_path / "my project"
    (checkout / ".git").mkdir(parents=True)
    (checkout / ".git" / "HEAD").write_text("d" * 40 + "\n")
    site = tmp_path / "site"
    site.mkdir()
    add_package(site, "x", "1")
    origin = {"url": checkout.as_uri(), "dir_info": {"editable": True}}
    (site / "x-1.dist-info" / "direct_url.json").write_text(json.dumps(origin))

    package = read_packages([site], contents=True)["x"]

    assert (package.is_editable, package.commit, package.files) == (True, "d" * 40, {})
    assert "files" in package.unknown


def test_without_metadata_the_folder_names_the_version(tmp_path: Path) -> None:
    (tmp_path / "x-1.0.dist-info").mkdir()
    (tmp_path / "old-2.0-py3.11.egg-info").write_text("Name: old\nVersion: 2.0\n")
    (tmp_path / "broken.dist-info").mkdir()
    (tmp_path / "~leftover-1.dist-info").mkdir()

    packages = read_packages([tmp_path], contents=True)

    assert {name: package.version for name, package in packages.items()} == {
        "broken": None,
        "old": "2.0",
        "x": "1.0",
    }
    assert "version" in packages["broken"].unknown
    assert "files" in packages["x"].unknown


def line(path: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    return f"{path},sha256={digest},{len(content)}"


def recorded(folder: Path, text: str) -> dict[str, str]:
    (folder / "RECORD").write_text(text)
    return recorded_files(folder)


@pytest.mark.parametrize(
    ("text", "files"),
    [
        (line("x/a.py", b"text"), {"x/a.py": content_hash(hashlib.sha256(b"text").digest())}),
        (line('"x/a,""b"".py"', b"1"), {'x/a,"b".py': content_hash(hashlib.sha256(b"1").digest())}),
        # Another algorithm stays in front of its hash.
        ("x/a.py,sha512=abcdefghijklmnopqrstuvwxyz,3", {"x/a.py": "sha512=abcdefghijklmnop"}),
        ("nonsense\n\n,,\n", {}),
    ],
    ids=["the content's", "a comma is quoted", "another algorithm", "damaged"],
)
def test_a_record_has_the_hash_of_each_file(
    tmp_path: Path, text: str, files: dict[str, str]
) -> None:
    assert recorded(tmp_path, text) == files


def test_what_differs_from_machine_to_machine_is_left_out(tmp_path: Path) -> None:
    text = "\n".join(
        [
            line("x/a.py", b"1"),
            line("../../../bin/x", b"2"),
            line("/etc/x.conf", b"3"),
            "x/__pycache__/a.cpython-312.pyc,,",
            line("x-1.dist-info/INSTALLER", b"4"),
            line("x-1.dist-info/METADATA", b"5"),
            "x-1.dist-info/RECORD,,",
        ]
    )

    assert list(recorded(tmp_path, text)) == ["x-1.dist-info/METADATA", "x/a.py"]


def test_the_digest_knows_no_order() -> None:
    assert digest_of({"a": "1", "b": "2"}) == digest_of({"b": "2", "a": "1"})
    assert digest_of({"a": "1"}) != digest_of({"a": "2"})


def listed(
    tmp_path: Path, *programs: str, timeout_s: float = 5.0, **scripts: str
) -> SystemPackages:
    """The packages with these programs on PATH alone, each a script of sh."""
    for name, text in scripts.items():
        write_script(tmp_path / name.replace("_", "-"), text)
    for name in ("sh", "printf", "cat", "sleep", *programs):
        real = shutil.which(name)
        if real is not None:
            (tmp_path / name).symlink_to(real)
    return read_system_packages({"PATH": str(tmp_path)}, timeout_s)


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="no Debian")
def test_the_packages_of_debian_are_those_that_its_own_program_calls_installed(
    tmp_path: Path,
) -> None:
    version = subprocess.run(
        ["dpkg-query", "-W", "-f=${Version}", "libc6"], capture_output=True, text=True, check=True
    ).stdout

    packages = listed(tmp_path, "dpkg-query")

    assert packages.unknown is None
    assert packages.versions["libc6"] == version


DPKG = (
    r"installed\tbash\t5.2-1\tamd64\nconfig-files\tgone\t1\tall\n"
    r"installed\tlibc6\t2.36\tamd64\ninstalled\tlibc6\t2.35\ti386\n"
)
RPM = r"kernel\t6.1-1\nbash\t5.2-3.el9\nkernel\t6.2-1\nkernel\t6.1-1\n"
APK = "WARNING: opening /var/cache/apk: No such-file\nmusl-1.2.5-r0\npy3-x-tools-1.3-r2"


@pytest.mark.parametrize(
    ("programs", "versions"),
    [
        (
            {"dpkg_query": f"printf '{DPKG}'"},
            {"bash": "5.2-1", "libc6": "2.36", "libc6:i386": "2.35"},
        ),
        ({"rpm": f"printf '{RPM}'"}, {"bash": "5.2-3.el9", "kernel": "6.1-1 and 6.2-1"}),
        ({"apk": f"cat <<'E'\n{APK}\nE"}, {"musl": "1.2.5-r0", "py3-x-tools": "1.3-r2"}),
        ({"dpkg_query": "exit 1", "rpm": r"printf 'bash\t5.2-1\n'"}, {"bash": "5.2-1"}),
    ],
    ids=["dpkg", "rpm", "apk", "of another distribution"],
)
def test_each_package_manager_names_what_is_installed(
    tmp_path: Path, programs: dict[str, str], versions: dict[str, str]
) -> None:
    assert listed(tmp_path, **programs).versions == versions  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("programs", "reason"),
    [
        ({"rpm": r"printf 'bash\t5.2-1\n'; echo damaged; exit 1"}, "rpm failed: damaged"),
        ({"apk": ":"}, "apk lists no package"),
        ({}, "there is no program of dpkg, rpm or apk"),
    ],
)
def test_a_program_that_fails_in_the_middle_or_lists_nothing_is_unknown(
    tmp_path: Path, programs: dict[str, str], reason: str
) -> None:
    packages = listed(tmp_path, **programs)  # type: ignore[arg-type]

    assert packages == SystemPackages(unknown=reason)


def test_a_program_that_cannot_be_started_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "apk").write_text("#!/no/such/interpreter\n")
    (tmp_path / "apk").chmod(0o755)

    assert "cannot be started" in (listed(tmp_path).unknown or "")


@pytest.mark.parametrize(
    ("dpkg", "reason"),
    [
        (
            r"printf 'installed\tbash\t5.2-1\tamd64\n'; echo damaged; exit 2",
            "dpkg-query failed: damaged",
        ),
        ("sleep 600", "dpkg-query has not answered within 0.2 s"),
        ("echo damaged; exit 2", "dpkg-query failed: damaged"),
    ],
)
def test_another_program_does_not_speak_for_one_that_failed(
    tmp_path: Path, dpkg: str, reason: str
) -> None:
    rpm = ":" if dpkg.startswith("echo") else r"printf 'alien\t1-1\n'"
    timeout_s = 0.2 if dpkg.startswith("sleep") else 60.0

    packages = listed(tmp_path, dpkg_query=dpkg, rpm=rpm, timeout_s=timeout_s)

    assert packages == SystemPackages(unknown=reason)


def test_an_installation_changes_one_of_the_databases(tmp_path: Path) -> None:
    assert tmp_path / "var/lib/dpkg/status" in databases(tmp_path)
    assert tmp_path / "lib/apk/db/installed" in databases(tmp_path)

"""Files of allowed signers, as ssh-keygen reads them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.store.signer import generate_key, load_signer
from ci_doctor.store.trust import AllowedSigners, UntrustedError, verify

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGFsbG93ZWRhbGxvd2VkYWxsb3dlZGFsbG93ZWRhbGw="


def test_comments_and_empty_lines_say_nothing() -> None:
    text = f"# who may sign\n\n  \nci@warm {KEY} the warm job\n"

    (signer,) = AllowedSigners.parse(text, "allowed").signers

    assert (signer.principals, signer.key_type) == ("ci@warm", "ssh-ed25519")


def test_a_line_has_principals_namespaces_and_times() -> None:
    text = (
        f'"ci@warm,*@nightly" namespaces="ci-*,!ci-secret",valid-after="20260101Z",'
        f'valid-before="202612312359Z" {KEY}\n'
    )

    (signer,) = AllowedSigners.parse(text, "allowed").signers

    assert signer.principals == "ci@warm,*@nightly"
    assert [signer.may_sign(name) for name in ("ci-cache", "ci-secret", "git")] == [
        True,
        False,
        False,
    ]
    assert (signer.valid_after_ms, signer.valid_before_ms) == (1_767_225_600_000, 1_798_761_540_000)
    assert [signer.is_valid_at(at) for at in (1, 1_780_000_000_000, 1_798_761_540_001)] == [
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"*@ca cert-authority {KEY}", "cert-authority is not supported"),
        (f'*@ca namespaces="x",cert-authority {KEY}', "cert-authority is not supported"),
        (f"ci namespaces=x {KEY}", "options have the form"),
        (f'ci verify-required="x" {KEY}', "verify-required is not known"),
        (f'ci valid-after="tomorrow" {KEY}', "is no time"),
        (f'ci namespaces="a",namespaces="b" {KEY}', "twice"),
        ("ci ssh-ed25519", "no key follows"),
        ("ci ssh-ed25519 ???", "no base64"),
        ("ci", "principals and a key"),
    ],
)
def test_a_line_that_cannot_be_honoured_is_an_error_with_its_number(line: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as raised:
        AllowedSigners.parse(f"# one\n{line}\n", "allowed")

    assert raised.value.message.startswith("allowed:2: ")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the allowed signers"):
        AllowedSigners.read(tmp_path / "none")


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
@pytest.mark.parametrize(
    "options",
    [
        "",
        'namespaces="ci-doctor-cache" ',
        'namespaces="ci-*,!ci-doctor-cache" ',
        'namespaces="git,ci-doctor-cach?" ',
        'valid-after="20990101" ',
        'valid-before="20200101Z" ',
        'valid-after="20200101",valid-before="20990101120000" ',
        'namespaces="git" ',
        "namespaces=ci-doctor-cache ",
    ],
)
def test_we_decide_as_ssh_keygen_does(tmp_path: Path, options: str) -> None:
    line = generate_key(tmp_path / "key")
    allowed = tmp_path / "allowed"
    allowed.write_text(f"ci@warm {options}{line}\n")
    armored = load_signer(tmp_path / "key", "ci-doctor-cache").sign(b"message")
    (tmp_path / "sig").write_text(armored)
    now_ms = 1_795_000_000_000  # in November 2026; no time above lies near to it

    try:
        ours = verify(b"message", armored, AllowedSigners.read(allowed), "ci-doctor-cache", now_ms)
    except (UntrustedError, UsageError):
        ours = ""
    arguments = ["-f", allowed, "-I", "ci@warm", "-n", "ci-doctor-cache", "-s", tmp_path / "sig"]
    theirs = subprocess.run(
        ["ssh-keygen", "-Y", "verify", "-O", "verify-time=20261118", *map(str, arguments)],
        input=b"message",
        capture_output=True,
        check=False,
        timeout=60,
    )

    assert (ours == "ci@warm") == (theirs.returncode == 0), theirs.stderr

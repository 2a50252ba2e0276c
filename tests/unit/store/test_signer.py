# SPDX-License-Identifier: Apache-2.0
"""Signatures of ours are those of ssh-keygen, made with keys that it reads, and the other way round."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.store.signer import generate_key, load_signer, signer_from_text
from ci_doctor.store.trust import AllowedSigners, verify

NAMESPACE = "ci-doctor-cache"
MESSAGE = b"the bytes of a manifest"
needs_ssh_keygen = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed"
)


def ssh_keygen(*arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = ["ssh-keygen", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=60)


def ssh_verify(tmp_path: Path, message: bytes, namespace: str = NAMESPACE) -> bool:
    arguments = ("-f", tmp_path / "allowed", "-I", "ci@warm", "-n", namespace)
    return not ssh_keygen(
        "-Y", "verify", *arguments, "-s", tmp_path / "sig", stdin=message
    ).returncode


@needs_ssh_keygen
def test_ssh_keygen_accepts_our_signature_and_no_changed_message(tmp_path: Path) -> None:
    line = generate_key(tmp_path / "key")
    (tmp_path / "allowed").write_text(f'ci@warm namespaces="{NAMESPACE}" {line}\n')
    signer = load_signer(tmp_path / "key", NAMESPACE)

    (tmp_path / "sig").write_text(signer.sign(MESSAGE))

    assert ssh_verify(tmp_path, MESSAGE)
    assert not ssh_verify(tmp_path, MESSAGE + b".")
    assert not ssh_verify(tmp_path, MESSAGE, "git")


@needs_ssh_keygen
def test_ssh_keygen_signs_with_our_key_the_same_bytes(tmp_path: Path) -> None:
    generate_key(tmp_path / "key")
    (tmp_path / "message").write_bytes(MESSAGE)

    signed = ssh_keygen("-Y", "sign", "-f", tmp_path / "key", "-n", NAMESPACE, tmp_path / "message")

    assert signed.returncode == 0, signed.stderr
    ours = load_signer(tmp_path / "key", NAMESPACE).sign(MESSAGE)
    assert (tmp_path / "message.sig").read_text() == ours


@needs_ssh_keygen
@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
def test_we_accept_what_ssh_keygen_signs_with_a_key_of_its_own(
    tmp_path: Path, algorithm: str
) -> None:
    key = tmp_path / "key"
    assert ssh_keygen("-q", "-t", "ed25519", "-N", "", "-f", key).returncode == 0
    hashed = f"hashalg={algorithm}"

    signed = ssh_keygen("-Y", "sign", "-O", hashed, "-f", key, "-n", NAMESPACE, stdin=MESSAGE)

    public = (tmp_path / "key.pub").read_text()
    allowed = AllowedSigners.parse(f"ci@warm {public}", "allowed")
    assert verify(MESSAGE, signed.stdout.decode(), allowed, NAMESPACE, 0) == "ci@warm"
    if algorithm == "sha512":
        assert load_signer(key, NAMESPACE).sign(MESSAGE) == signed.stdout.decode()


@needs_ssh_keygen
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("-t", "ed25519", "-N", "passphrase"), "has a passphrase"),
        (("-t", "ecdsa", "-N", ""), "is no Ed25519 key"),
        (("-t", "ed25519", "-N", "", "-m", "PEM"), None),
    ],
)
def test_a_key_of_another_kind_is_refused_by_name(
    tmp_path: Path, options: tuple[str, ...], reason: str | None
) -> None:
    key = tmp_path / "key"
    assert ssh_keygen("-q", *options, "-f", key).returncode == 0

    if reason is None:
        assert load_signer(key, NAMESPACE).sign(MESSAGE)
        return
    with pytest.raises(UsageError, match=reason):
        load_signer(key, NAMESPACE)


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    generate_key(tmp_path / "key")
    (tmp_path / "key").chmod(0o640)

    with pytest.raises(UsageError, match="others can read"):
        load_signer(tmp_path / "key", NAMESPACE)


def test_a_key_is_written_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    line = generate_key(tmp_path / "key", "ci@warm")
    content = (tmp_path / "key").read_bytes()

    with pytest.raises(UsageError, match="File exists"):
        generate_key(tmp_path / "key")

    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "key").read_bytes() == content
    assert (tmp_path / "key.pub").read_text() == f"{line}\n"
    assert line.endswith(" ci@warm")


def test_a_private_key_without_its_public_one_leaves_no_new_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("another")

    with pytest.raises(UsageError, match="File exists"):
        generate_key(tmp_path / "key")

    assert [path.name for path in tmp_path.iterdir()] == ["key"]


@pytest.mark.parametrize("change", [str.strip, lambda text: text.replace("\n", "\r\n")])
def test_a_key_comes_from_a_variable_as_secret_stores_hand_it_out(
    tmp_path: Path, change: Callable[[str], str]
) -> None:
    generate_key(tmp_path / "key")
    text = change((tmp_path / "key").read_text())

    signer = signer_from_text(text, "CACHE_KEY", NAMESPACE)

    assert signer.sign(MESSAGE) == load_signer(tmp_path / "key", NAMESPACE).sign(MESSAGE)


def test_what_is_no_key_is_not_repeated_in_the_message() -> None:
    with pytest.raises(UsageError) as raised:
        signer_from_text("hunter2", "CACHE_KEY", NAMESPACE)

    assert "CACHE_KEY" in raised.value.message
    assert "hunter2" not in f"{raised.value.message} {raised.value.hint}"
    assert raised.value.__cause__ is None


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the key"):
        load_signer(tmp_path / "none", NAMESPACE)

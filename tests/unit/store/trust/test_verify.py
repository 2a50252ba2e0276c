"""Each way in which a signature is not one of an allowed signer has its own reason."""

import base64
from pathlib import Path

import pytest

from ci_doctor.store.signer import Signer, generate_key, load_signer
from ci_doctor.store.trust import AllowedSigners, Distrust, UntrustedError, verify

NAMESPACE = "ci-doctor-cache"
MESSAGE = b"the bytes of a manifest"
NOW = 1_795_000_000_000


def key(tmp_path: Path, name: str = "key", namespace: str = NAMESPACE) -> tuple[Signer, str]:
    path = tmp_path / name
    line = path.with_name(f"{name}.pub").read_text() if path.exists() else generate_key(path)
    return load_signer(path, namespace), line


def distrust(message: bytes, armored: str, allowed: str) -> Distrust:
    with pytest.raises(UntrustedError) as raised:
        verify(message, armored, AllowedSigners.parse(allowed, "allowed"), NAMESPACE, NOW)
    return raised.value.distrust


def test_the_principals_of_the_line_are_told(tmp_path: Path) -> None:
    signer, line = key(tmp_path)
    _, other = key(tmp_path, "other")
    allowed = AllowedSigners.parse(f"other {other}\nci@warm {line}\n", "allowed")

    assert verify(MESSAGE, signer.sign(MESSAGE), allowed, NAMESPACE, NOW) == "ci@warm"


def test_a_changed_message_is_tampered_with(tmp_path: Path) -> None:
    signer, line = key(tmp_path)

    assert distrust(MESSAGE + b".", signer.sign(MESSAGE), f"ci {line}") is Distrust.TAMPERED


def test_a_key_that_stands_in_no_line_is_unknown(tmp_path: Path) -> None:
    signer, _ = key(tmp_path)
    _, other = key(tmp_path, "other")

    assert distrust(MESSAGE, signer.sign(MESSAGE), f"ci {other}") is Distrust.UNKNOWN_KEY
    assert distrust(MESSAGE, signer.sign(MESSAGE), "") is Distrust.UNKNOWN_KEY


def test_another_key_put_into_the_signature_is_tampered_with(tmp_path: Path) -> None:
    signer, _ = key(tmp_path)
    _, other = key(tmp_path, "other")
    own_blob, other_blob = (
        base64.b64decode(text.split()[1]) for text in ((tmp_path / "key.pub").read_text(), other)
    )
    lines = signer.sign(MESSAGE).splitlines()
    blob = base64.b64decode("".join(lines[1:-1])).replace(own_blob, other_blob)
    forged = "\n".join([lines[0], base64.b64encode(blob).decode(), lines[-1]])

    assert distrust(MESSAGE, forged, f"ci {other}") is Distrust.TAMPERED


def test_a_signature_for_something_else_has_the_wrong_namespace(tmp_path: Path) -> None:
    git, line = key(tmp_path, namespace="git")
    pull_request, _ = key(tmp_path, namespace=f"{NAMESPACE}@pr-7")
    own, _ = key(tmp_path)

    for signer, options in ((git, ""), (pull_request, ""), (own, 'namespaces="git" ')):
        reason = distrust(MESSAGE, signer.sign(MESSAGE), f"ci {options}{line}")
        assert reason is Distrust.WRONG_NAMESPACE


@pytest.mark.parametrize("option", ['valid-before="20260101Z"', 'valid-after="20270101Z"'])
def test_a_key_is_valid_in_its_time_alone(tmp_path: Path, option: str) -> None:
    signer, line = key(tmp_path)

    reason = distrust(MESSAGE, signer.sign(MESSAGE), f"ci {option} {line}")

    assert reason is Distrust.KEY_NOT_VALID_NOW


def test_one_valid_line_of_several_is_enough(tmp_path: Path) -> None:
    signer, line = key(tmp_path)
    text = f'old valid-before="20260101Z" {line}\nnew {line}\n'

    principal = verify(
        MESSAGE, signer.sign(MESSAGE), AllowedSigners.parse(text, "allowed"), NAMESPACE, NOW
    )

    assert principal == "new"


def armored(blob: bytes) -> str:
    begin, end = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"
    return f"{begin}\n{base64.b64encode(blob).decode()}\n{end}\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "signature",
        "-----BEGIN SSH SIGNATURE-----\n???\n-----END SSH SIGNATURE-----",
        armored(b""),
        armored(b"SSHSIG\0\0\0\2"),
        armored(b"SSHSIG\0\0\0\1\0\0\0\xff"),
        armored(b"SSHSIG\0\0\0\1" + b"\0\0\0\0" * 5),
        armored(b"SSHSIG\0\0\0\1" + b"\0\0\0\0" * 6),
        armored(b"\0" * 20_000),
    ],
)
def test_what_is_no_signature_is_malformed(text: str) -> None:
    assert distrust(MESSAGE, text, "") is Distrust.MALFORMED


def test_any_changed_byte_of_a_signature_is_noticed(tmp_path: Path) -> None:
    signer, line = key(tmp_path)
    lines = signer.sign(MESSAGE).splitlines()
    blob = base64.b64decode("".join(lines[1:-1]))

    for place in range(len(blob)):
        changed = bytearray(blob)
        changed[place] ^= 1
        assert distrust(MESSAGE, armored(bytes(changed)), f"ci {line}")

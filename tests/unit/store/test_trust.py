# SPDX-License-Identifier: Apache-2.0
"""A manifest is used if somebody who may vouches for it, for this identity, in this scope, now."""

import base64
import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.store.directory_store import DirectoryStore
from ci_doctor.store.manifest import (
    IdentityTier,
    Manifest,
    PackReference,
    encode,
    is_segment,
    manifest_name,
    signature_name,
)
from ci_doctor.store.objects import DamagedError, StoreError, StoreLimits
from ci_doctor.store.signer import Signer, generate_key, load_signer
from ci_doctor.store.trust import (
    AllowedSigners,
    Distrust,
    TrustPolicy,
    TrustRules,
    UntrustedError,
    manifests,
    matches,
    namespace_of,
    read_manifest,
    scopes_of,
    verify,
    vouch,
)
from tests.support.builds import MAIN_BUILD
from tests.support.saved_manifests import EMPTY_FILE, put_manifest, saved_manifest

NOW = 1_795_000_000_000
HOUR = 3_600_000
LIMITS = StoreLimits()


def manifest(
    created_ms: int = NOW - HOUR, expires_ms: int = NOW + HOUR, **changes: object
) -> Manifest:
    tier = IdentityTier(facts={"torch": "2.13"})
    own = {"hard": tier, "path": tier, "soft": tier, "files": (EMPTY_FILE,)}
    return saved_manifest(created_ms, expires_ms, **{**own, **changes})


class Place:
    """A store in a directory, a key, and the file that allows it."""

    def __init__(self, folder: Path) -> None:
        self.key = folder / "key"
        self.store = DirectoryStore(folder / "store")
        line = generate_key(self.key)
        allowed = AllowedSigners.parse(f"ci@warm {line}", "allowed")
        self.rules = TrustRules(policy=TrustPolicy.SIGNED, allowed=allowed, now_ms=NOW)

    def put(self, saved: Manifest, scope: str = "signed", *, made_for: str | None = None) -> str:
        """Store a manifest in `scope`, with a signature made for the scope `made_for` if given."""
        name = put_manifest(self.store, scope, saved)
        if made_for is not None:
            signer = load_signer(self.key, namespace_of(made_for))
            self.store.create(signature_name(name), signer.sign(encode(saved)).encode())
        return name

    def copy(self, source: str, target: str) -> str:
        for name, copy in ((source, target), (signature_name(source), signature_name(target))):
            self.store.create(copy, self.store.read(name, 10**6) or b"")
        return target

    def distrust(self, name: str) -> Distrust:
        with pytest.raises(UntrustedError) as raised:
            read_manifest(self.store, name, self.rules, LIMITS)
        return raised.value.distrust


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_signed_manifest_is_read_with_its_signer(place: Place) -> None:
    name = place.put(manifest(), made_for="signed")

    candidate = read_manifest(place.store, name, place.rules, LIMITS)

    assert candidate.manifest == manifest()
    assert (candidate.scope, candidate.vouched.signer) == ("signed", "ci@warm")


def test_names_come_newest_first_and_hold_only_manifests(place: Place) -> None:
    old = place.put(manifest(created_ms=NOW - 3), made_for="signed")
    new = place.put(manifest(created_ms=NOW - 1), made_for="signed")
    own = place.put(manifest(created_ms=NOW - 2), "pr-7")
    place.put(manifest(created_ms=NOW, family="inductor"))
    place.put(manifest(created_ms=NOW, hard=IdentityTier(facts={"torch": "2.12"})))
    place.store.create(f"{new.rpartition('/')[0]}/notes.txt", b"")
    hard = manifest().hard.digest()[:32]

    assert manifests(place.store, ("pr-7", "signed"), "triton", hard) == [new, own, old]
    assert manifests(place.store, ("signed",), "triton", hard) == [new, old]
    assert manifests(place.store, ("local",), "triton", hard) == []


def test_what_nobody_signed_so_or_has_expired_is_refused_before_it_is_parsed(place: Place) -> None:
    unsigned = place.put(manifest())
    changed = place.put(manifest(), "pr-7", made_for="pr-7")
    (place.store.directory / unsigned).write_bytes(b"no manifest at all")
    (place.store.directory / changed).write_bytes(encode(manifest(root="/evil")))
    expired = place.put(manifest(expires_ms=NOW), made_for="signed")

    reasons = [place.distrust(name) for name in (unsigned, changed, expired)]

    assert reasons == [Distrust.UNSIGNED, Distrust.TAMPERED, Distrust.EXPIRED]


@pytest.mark.parametrize(
    "change",
    [
        {"family": "inductor"},
        {"hard": IdentityTier(facts={"torch": "2.12"})},
        {"hard": IdentityTier(facts={}, unknown=("torch",))},
        {"created_ms": NOW},
    ],
)
def test_a_copy_under_another_identity_or_time_is_replayed(
    place: Place, change: dict[str, Any]
) -> None:
    name = place.put(manifest(), made_for="signed")
    digest = hashlib.sha256(encode(manifest())).hexdigest()

    target = place.copy(name, manifest_name("signed", manifest(**change), digest))

    assert place.distrust(target) is Distrust.REPLAYED


def test_what_a_pull_request_signed_is_worth_nothing_in_another_scope(place: Place) -> None:
    name = place.put(manifest(), "pr-7", made_for="pr-7")

    assert read_manifest(place.store, name, place.rules, LIMITS).scope == "pr-7"
    for scope in ("signed", "pr-8"):
        target = place.copy(name, name.replace("/pr-7/", f"/{scope}/"))
        assert place.distrust(target) is Distrust.WRONG_NAMESPACE


@pytest.mark.parametrize(
    ("scope", "packs", "accepted"),
    [
        ("signed", ("signed",), True),
        ("signed", ("pr-7",), False),
        ("pr-7", ("pr-7", "signed"), True),
        ("pr-7", ("pr-8",), False),
    ],
)
def test_bytes_come_from_the_own_scope_or_what_main_signed(
    place: Place, scope: str, packs: tuple[str, ...], accepted: bool
) -> None:
    references = tuple(PackReference(scope=pack, digest="0" * 64, bytes=1) for pack in packs)
    name = place.put(manifest(packs=references), scope, made_for=scope)

    if accepted:
        assert read_manifest(place.store, name, place.rules, LIMITS).manifest.packs == references
    else:
        assert place.distrust(name) is Distrust.REPLAYED


def test_a_name_with_another_digest_is_damaged(place: Place) -> None:
    name = place.put(manifest(), made_for="signed")
    target = place.copy(name, f"{name.rpartition('-')[0]}-{'0' * 64}.json.zst")

    with pytest.raises(DamagedError, match="was changed"):
        read_manifest(place.store, target, place.rules, LIMITS)


def test_a_manifest_that_vanished_or_never_was_one_is_said(place: Place) -> None:
    name = place.put(manifest(), made_for="signed")
    place.store.remove(name)

    with pytest.raises(StoreError, match="does not exist any more"):
        read_manifest(place.store, name, place.rules, LIMITS)
    with pytest.raises(DamagedError, match="not the name of a manifest"):
        read_manifest(place.store, "v1/signed/packs/x", place.rules, LIMITS)


def test_limits_hold_for_what_is_signed_too(place: Place) -> None:
    name = place.put(manifest(), made_for="signed")

    with pytest.raises(StoreError):
        read_manifest(place.store, name, place.rules, StoreLimits(files=0))
    with pytest.raises(StoreError):
        read_manifest(place.store, name, place.rules, StoreLimits(manifest_bytes=10))


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


def rules(policy: TrustPolicy, allowed: str | None = None) -> TrustRules:
    signers = None if allowed is None else AllowedSigners.parse(allowed, "allowed")
    return TrustRules(policy=policy, allowed=signers, now_ms=1_795_000_000_000)


@pytest.mark.parametrize(
    ("policy", "shared"),
    [(TrustPolicy.SIGNED, True), (TrustPolicy.SIGNED, False), (TrustPolicy.LOCAL, True)],
)
def test_what_nobody_signed_is_refused(policy: TrustPolicy, shared: bool) -> None:
    with pytest.raises(UntrustedError) as raised:
        vouch(b"content", None, "signed", rules(policy), shared=shared)

    assert raised.value.distrust is Distrust.UNSIGNED


def test_a_private_directory_vouches_for_itself_and_the_policy_any_warns_of_what_it_accepts() -> (
    None
):
    private = vouch(b"content", None, "local", rules(TrustPolicy.LOCAL), shared=False)
    anything = vouch(b"content", None, "pr-7", rules(TrustPolicy.ANY), shared=True)

    assert (private.signer, private.warning, anything.signer) == (None, None, None)
    assert "runs code in this job" in (anything.warning or "")
    assert "whoever can write to the store" in (anything.warning or "")


@pytest.mark.parametrize("policy", list(TrustPolicy))
def test_every_policy_says_who_signed_and_refuses_what_was_changed(
    policy: TrustPolicy, tmp_path: Path
) -> None:
    line = generate_key(tmp_path / "key")
    armored = load_signer(tmp_path / "key", "ci-doctor-cache").sign(b"content")
    known = rules(policy, f"ci@warm {line}")

    assert vouch(b"content", armored, "signed", known, shared=True).signer == "ci@warm"
    for content, scope, distrust in (
        (b"changed", "signed", Distrust.TAMPERED),
        (b"content", "pr-7", Distrust.WRONG_NAMESPACE),
    ):
        with pytest.raises(UntrustedError) as raised:
            vouch(content, armored, scope, known, shared=False)
        assert raised.value.distrust is distrust


def test_a_strangers_signature_is_as_good_as_none(tmp_path: Path) -> None:
    generate_key(tmp_path / "key")
    armored = load_signer(tmp_path / "key", "ci-doctor-cache").sign(b"content")

    for allowed in (None, ""):
        with pytest.raises(UntrustedError) as raised:
            vouch(b"content", armored, "signed", rules(TrustPolicy.LOCAL, allowed), shared=True)
        assert raised.value.distrust is Distrust.UNKNOWN_KEY
    assert vouch(b"content", armored, "signed", rules(TrustPolicy.ANY), shared=True).warning
    assert not vouch(b"content", armored, "signed", rules(TrustPolicy.LOCAL), shared=False).warning


def test_the_default_branch_fills_what_all_read_if_it_has_a_key() -> None:
    signed, unsigned = (scopes_of(MAIN_BUILD, has_key=has_key) for has_key in (True, False))

    assert (signed.write, signed.read) == ("signed", ("signed",))
    assert "default branch main" in signed.reason
    assert unsigned.write.startswith("branch-main-")
    assert unsigned.read == (unsigned.write, "signed")
    assert "there is no key" in unsigned.reason


@pytest.mark.parametrize("has_key", [True, False])
@pytest.mark.parametrize("branch", ["main", "fork:main", "topic"])
def test_a_pull_request_reads_what_main_signed_and_writes_to_its_own(
    branch: str, has_key: bool
) -> None:
    environ = {**MAIN_BUILD, "BUILDKITE_PULL_REQUEST": "17", "BUILDKITE_BRANCH": branch}

    scopes = scopes_of(environ, has_key=has_key)

    assert (scopes.write, scopes.read) == ("pr-17", ("pr-17", "signed"))


@pytest.mark.parametrize("request_", ["", "signed", "../signed", "٣", "1/../../signed"])
def test_an_odd_pull_request_is_never_the_default_branch(request_: str) -> None:
    scopes = scopes_of({**MAIN_BUILD, "BUILDKITE_PULL_REQUEST": request_}, has_key=True)

    assert scopes.write.startswith("branch-main-")


def test_outside_ci_a_scope_is_local() -> None:
    assert scopes_of({}, has_key=True).write == "local"


@pytest.mark.parametrize("branch", ["a/b", "a-b", "ä", "..", "-x", "x" * 300, "signed", "a\udcff"])
def test_each_branch_has_a_scope_of_its_own(branch: str) -> None:
    scope = scopes_of({**MAIN_BUILD, "BUILDKITE_BRANCH": branch}, has_key=True).write

    other = scopes_of({**MAIN_BUILD, "BUILDKITE_BRANCH": f"{branch}/"}, has_key=True).write
    assert is_segment(scope)
    assert scope.startswith("branch-")
    assert scope != other


def test_a_signature_names_its_scope() -> None:
    assert [namespace_of(scope) for scope in ("signed", "pr-7")] == [
        "ci-doctor-cache",
        "ci-doctor-cache@pr-7",
    ]


@pytest.mark.parametrize(
    ("text", "patterns", "expected"),
    [
        ("git", "git", True),
        ("git", "gi", False),
        ("git", "file,git", True),
        ("git", "g?t", True),
        ("git", "g*", True),
        ("git", "*,!git", False),
        ("git", "!git,*", False),
        ("git", "!file", False),
        ("g.t", "g.t", True),
        ("gxt", "g.t", False),
        ("git", "", False),
    ],
)
def test_a_list_matches_as_ssh_does(text: str, patterns: str, expected: bool) -> None:
    assert matches(text, patterns) is expected


NAMESPACE = "ci-doctor-cache"
MESSAGE = b"the bytes of a manifest"


def key(tmp_path: Path, name: str = "key", namespace: str = NAMESPACE) -> tuple[Signer, str]:
    path = tmp_path / name
    line = path.with_name(f"{name}.pub").read_text() if path.exists() else generate_key(path)
    return load_signer(path, namespace), line


def distrust(message: bytes, armored: str, allowed: str) -> Distrust:
    with pytest.raises(UntrustedError) as raised:
        verify(message, armored, AllowedSigners.parse(allowed, "allowed"), NAMESPACE, NOW)
    return raised.value.distrust


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


def test_the_principals_of_the_first_line_that_allows_the_key_now_are_told(tmp_path: Path) -> None:
    signer, line = key(tmp_path)
    _, other = key(tmp_path, "other")
    text = f'other {other}\nold valid-before="20260101Z" {line}\nnew {line}\n'
    allowed = AllowedSigners.parse(text, "allowed")

    assert verify(MESSAGE, signer.sign(MESSAGE), allowed, NAMESPACE, NOW) == "new"


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

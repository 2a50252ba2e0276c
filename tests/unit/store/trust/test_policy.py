"""Which policy accepts what: unsigned or signed by a stranger, from a shared or a private store."""

from pathlib import Path

import pytest

from ci_doctor.store.signer import generate_key, load_signer
from ci_doctor.store.trust import (
    AllowedSigners,
    Distrust,
    TrustPolicy,
    TrustRules,
    UntrustedError,
    vouch,
)


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


def test_a_private_directory_vouches_for_itself_by_the_policy_local() -> None:
    vouched = vouch(b"content", None, "local", rules(TrustPolicy.LOCAL), shared=False)

    assert (vouched.signer, vouched.warning) == (None, None)


def test_the_policy_any_warns_of_what_it_accepts() -> None:
    vouched = vouch(b"content", None, "pr-7", rules(TrustPolicy.ANY), shared=True)

    assert vouched.signer is None
    assert "runs code in this job" in (vouched.warning or "")
    assert "whoever can write to the store" in (vouched.warning or "")


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

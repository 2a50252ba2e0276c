# SPDX-License-Identifier: Apache-2.0
"""Reads manifests and signatures: which saved trees may be used, by scope and by who signed them."""

import base64
import binascii
import enum
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

import msgspec

from ci_doctor.buildkite.job import JobEnvironment, is_default_branch_build
from ci_doctor.errors import UsageError
from ci_doctor.store.manifest import (
    Manifest,
    check_manifest,
    check_name,
    decode,
    manifests_prefix,
    parse_manifest_name,
    signature_name,
)
from ci_doctor.store.objects import DamagedError, ObjectStore, StoreError, StoreFailure, StoreLimits

# --- a pattern-list of ssh_config(5): `*` and `?`, commas between patterns, `!` for exceptions ---


def matches(text: str, patterns: str) -> bool:
    """Whether a pattern of the list matches `text`, and none with `!` before it does."""
    is_named = False
    for pattern in patterns.split(","):
        if _matches_one(text, pattern.removeprefix("!")):
            if pattern.startswith("!"):
                return False
            is_named = True
    return is_named


def _matches_one(text: str, pattern: str) -> bool:
    parts = re.split(r"([*?])", pattern)
    wild = {"*": ".*", "?": "."}
    expression = "".join(wild.get(part, re.escape(part)) for part in parts)
    return re.fullmatch(expression, text, re.DOTALL) is not None


# --- why what a store holds is not used: each kind of missing trust has its own reason ---


class Distrust(enum.StrEnum):
    """The reason, for programs and tests; the message says it to people."""

    UNSIGNED = "unsigned"
    MALFORMED = "malformed"
    UNKNOWN_KEY = "unknown-key"
    WRONG_NAMESPACE = "wrong-namespace"
    TAMPERED = "tampered"
    KEY_NOT_VALID_NOW = "key-not-valid-now"
    EXPIRED = "expired"
    REPLAYED = "replayed"


class UntrustedError(StoreError):
    """Content is not used, because nobody who may has vouched for it: `distrust` says why."""

    def __init__(self, distrust: Distrust, message: str, *, hint: str | None = None) -> None:
        super().__init__(StoreFailure.REFUSED, message, hint=hint)
        self.distrust = distrust


# --- reads an allowed_signers file, as ssh-keygen(1) describes it ("ALLOWED SIGNERS") ---
# ci@example.com namespaces="ci-doctor-cache",valid-before="20271231" ssh-ed25519 AAAA… a comment

_MOST_BYTES: Final = 1024 * 1024
_KEY_TYPE: Final = re.compile(r"(?:sk-)?(?:ssh|ecdsa)-[a-z0-9@.-]+", re.ASCII)
# principals, which may stand in quotes, and the rest
_PRINCIPALS: Final = re.compile(r'(?:"(?P<quoted>[^"]*)"|(?P<plain>[^\s"]+))\s+(?P<rest>.+)')
# name, or name="value" with \" for a quote within it
_OPTION: Final = re.compile(r'(?P<name>[a-z-]+)(?:="(?P<value>(?:[^"\\]|\\.)*)")?(?:,|(?=\s)|$)')
_TIMES: Final = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}


class AllowedSigner(msgspec.Struct, frozen=True, kw_only=True):
    """One line: whose key it is, for which namespaces, and from when until when (ms, or None)."""

    principals: str
    key_type: str
    public_key: bytes
    namespaces: str | None = None
    valid_after_ms: int | None = None
    valid_before_ms: int | None = None

    def may_sign(self, namespace: str) -> bool:
        """Whether the line allows `namespace`."""
        return self.namespaces is None or matches(namespace, self.namespaces)

    def is_valid_at(self, at_ms: int) -> bool:
        """Whether the key is valid at that time."""
        if self.valid_after_ms is not None and at_ms < self.valid_after_ms:
            return False
        return self.valid_before_ms is None or at_ms <= self.valid_before_ms


class AllowedSigners(msgspec.Struct, frozen=True, kw_only=True):
    """The lines of an allowed_signers file; `source` names it."""

    source: str
    signers: tuple[AllowedSigner, ...]

    @classmethod
    def read(cls, path: Path) -> Self:
        """The lines of the file `path`. Raises UsageError, with the line that cannot be read."""
        try:
            with path.open("rb") as file:
                content = file.read(_MOST_BYTES)
        except OSError as error:
            raise UsageError(
                f"cannot read the allowed signers {path}: {error.strerror}",
                hint="name a file with lines such as `ci@example.com ssh-ed25519 AAAA…`",
            ) from error
        return cls.parse(content.decode(errors="replace"), str(path))

    @classmethod
    def parse(cls, text: str, source: str) -> Self:
        """The lines of `text`. Raises UsageError, with the line that cannot be read."""
        return cls(source=source, signers=tuple(_lines(text, source)))

    def with_key(self, public_key: bytes) -> tuple[AllowedSigner, ...]:
        """The lines with this key (a key blob)."""
        return tuple(signer for signer in self.signers if signer.public_key == public_key)


def _lines(text: str, source: str) -> Iterator[AllowedSigner]:
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        try:
            yield _signer(stripped)
        except ValueError as error:
            raise UsageError(
                f"{source}:{number}: {error}", hint="ssh-keygen(1) describes this file"
            ) from error


def _signer(line: str) -> AllowedSigner:
    match = _PRINCIPALS.fullmatch(line)
    if match is None:
        raise ValueError("principals and a key are expected")
    options, rest = _options(match["rest"])
    fields = rest.split()
    if len(fields) < 2 or _KEY_TYPE.fullmatch(fields[0]) is None:
        raise ValueError("no key follows the principals and options")
    try:
        public_key = base64.b64decode(fields[1], validate=True)
    except binascii.Error as error:
        raise ValueError("the key is no base64") from error
    return AllowedSigner(
        principals=match["quoted"] or match["plain"],
        key_type=fields[0],
        public_key=public_key,
        namespaces=options.get("namespaces"),
        valid_after_ms=_moment(options.get("valid-after")),
        valid_before_ms=_moment(options.get("valid-before")),
    )


def _options(text: str) -> tuple[dict[str, str], str]:
    """The options at the beginning of `text`, and what follows them. Raises ValueError."""
    if _KEY_TYPE.fullmatch(text.split(maxsplit=1)[0]):
        return {}, text
    options: dict[str, str] = {}
    position = 0
    while position < len(text) and not text[position].isspace():
        match = _OPTION.match(text, position)
        if match is None:
            raise ValueError('options have the form name="value", with commas between them')
        name, value = match["name"], match["value"]
        if name == "cert-authority":
            raise ValueError("cert-authority is not supported: name the keys themselves")
        if name not in {"namespaces", "valid-after", "valid-before"} or value is None:
            raise ValueError(f"the option {name} is not known in this form")
        if name in options:
            raise ValueError(f"the option {name} stands there twice")
        options[name] = re.sub(r"\\(.)", r"\1", value)
        position = match.end()
    return options, text[position:].strip()


def _moment(text: str | None) -> int | None:
    """`YYYYMMDD[HHMM[SS]][Z]` in ms since the epoch; in local time without the Z."""
    if text is None:
        return None
    digits = text.removesuffix("Z")
    form = _TIMES.get(len(digits))
    if form is None or not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"{text} is no time: YYYYMMDD[HHMM[SS]][Z]")
    moment = datetime.strptime(digits, form)  # noqa: DTZ007 - local time, unless it ends with Z
    if digits != text:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


# --- the binary and the armored form of an SSH signature ---
# https://github.com/openssh/openssh-portable/blob/master/PROTOCOL.sshsig; strings are those of RFC
# 4251, section 5.

ALGORITHM: Final = b"ssh-ed25519"
_MAGIC: Final = b"SSHSIG"
_BEGIN: Final = "-----BEGIN SSH SIGNATURE-----"
_END: Final = "-----END SSH SIGNATURE-----"
_LINE: Final = 70  # as ssh-keygen breaks it
MOST_ARMORED_BYTES: Final = 16 * 1024


class SshSignature(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a signature. `public_key` is a key blob, `signature` a signature blob."""

    public_key: bytes
    namespace: bytes
    hash_algorithm: bytes
    signature: bytes


def string(content: bytes) -> bytes:
    """A string with its length before it."""
    return len(content).to_bytes(4, "big") + content


def strings(blob: bytes) -> list[bytes]:
    """The strings that a blob consists of. Raises ValueError if it ends within one."""
    blobs = []
    position = 0
    while position < len(blob):
        end = position + 4 + int.from_bytes(blob[position : position + 4], "big")
        if position + 4 > len(blob) or end > len(blob):
            raise ValueError("a string is cut off")
        blobs.append(blob[position + 4 : end])
        position = end
    return blobs


def signed_bytes(namespace: bytes, hash_algorithm: bytes, digest: bytes) -> bytes:
    """What the key signs, of a message with this digest."""
    return _MAGIC + string(namespace) + string(b"") + string(hash_algorithm) + string(digest)


def armor(signature: SshSignature) -> str:
    """The text that `ssh-keygen -Y verify` reads."""
    blob = (
        _MAGIC
        + (1).to_bytes(4, "big")
        + string(signature.public_key)
        + string(signature.namespace)
        + string(b"")
        + string(signature.hash_algorithm)
        + string(signature.signature)
    )
    text = base64.b64encode(blob).decode()
    lines = [text[start : start + _LINE] for start in range(0, len(text), _LINE)]
    return "\n".join([_BEGIN, *lines, _END, ""])


def unarmor(text: str) -> SshSignature:
    """The signature in `text`. Raises UntrustedError (malformed) if it is none of version 1."""
    body = text.strip()
    if len(body) > MOST_ARMORED_BYTES or not (body.startswith(_BEGIN) and body.endswith(_END)):
        raise malformed("it is no armored SSH signature")
    encoded = "".join(body[len(_BEGIN) : -len(_END)].split())
    try:
        blob = base64.b64decode(encoded, validate=True)
        if blob[:6] != _MAGIC or blob[6:10] != (1).to_bytes(4, "big"):
            raise malformed("it is no SSH signature of version 1")
        public_key, namespace, _, hash_algorithm, signature = strings(blob[10:])
    except (ValueError, binascii.Error) as error:
        raise malformed("its fields cannot be read") from error
    return SshSignature(
        public_key=public_key,
        namespace=namespace,
        hash_algorithm=hash_algorithm,
        signature=signature,
    )


def malformed(why: str) -> UntrustedError:
    """The error for a signature that cannot be read."""
    return UntrustedError(Distrust.MALFORMED, f"the signature cannot be read: {why}")


# --- whether a message has been signed by a key that may sign it, as `ssh-keygen -Y verify` decides ---

_HASHES: Final = {b"sha256": hashlib.sha256, b"sha512": hashlib.sha512}


def verify(
    message: bytes, armored: str, allowed: AllowedSigners, namespace: str, at_ms: int
) -> str:
    """The principals of the line that allows the key, if the signature over `message` is its own.

    `at_ms` (since the epoch) is when the key must be valid: now, because a stolen key can sign with
    any date. Raises UntrustedError with the reason.
    """
    signature = unarmor(armored)
    _check_signature(message, signature)
    if signature.namespace != namespace.encode():
        made_for = signature.namespace.decode(errors="replace")[:80]
        raise UntrustedError(
            Distrust.WRONG_NAMESPACE,
            f"the signature was made for {made_for!r}, not for {namespace!r}",
        )
    lines = allowed.with_key(signature.public_key)
    if not lines:
        raise UntrustedError(
            Distrust.UNKNOWN_KEY,
            f"no line of {allowed.source} has the key of the signature",
            hint="add the public key of the job that saves, if you trust it",
        )
    lines = tuple(line for line in lines if line.may_sign(namespace))
    if not lines:
        message_text = f"{allowed.source} does not allow this key the namespace {namespace!r}"
        raise UntrustedError(Distrust.WRONG_NAMESPACE, message_text)
    for line in lines:
        if line.is_valid_at(at_ms):
            return line.principals
    raise UntrustedError(
        Distrust.KEY_NOT_VALID_NOW,
        f"the key of {lines[0].principals} is not valid now",
        hint=f"see valid-after and valid-before in {allowed.source}",
    )


def _check_signature(message: bytes, signature: SshSignature) -> None:
    """Raise UntrustedError unless the key in the signature has signed `message`."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    digest = _HASHES.get(signature.hash_algorithm)
    if digest is None:
        raise malformed("its hash is neither sha256 nor sha512")
    try:
        key_type, key = strings(signature.public_key)
        signature_type, raw = strings(signature.signature)
        public_key = Ed25519PublicKey.from_public_bytes(key)
    except ValueError as error:
        raise malformed("it is no signature of an Ed25519 key") from error
    if key_type != ALGORITHM or signature_type != ALGORITHM:
        raise malformed("it is no signature of an Ed25519 key")
    signed = signed_bytes(signature.namespace, signature.hash_algorithm, digest(message).digest())
    try:
        public_key.verify(raw, signed)
    except InvalidSignature as error:
        raise UntrustedError(
            Distrust.TAMPERED, "the signature does not fit the content: one of them was changed"
        ) from error


# --- which scope of a store a job writes to, and which it reads ---
# signed           the default branch's jobs that have a key; everybody reads it
# pr-<number>      the builds of one pull request
# branch-<name>    the builds of one branch
# local            everything outside CI
# A job can set the variables that decide this: they keep honest jobs apart. What keeps a dishonest
# one out of `signed` is the key that it does not have. A signature names the scope that it was made
# for, so that what a pull request has signed is worth nothing elsewhere.

SIGNED: Final = "signed"
LOCAL: Final = "local"
NAMESPACE: Final = "ci-doctor-cache"
_NAME_CHARACTERS: Final = 60


class JobScopes(msgspec.Struct, frozen=True, kw_only=True):
    """Where a job writes, where it reads (in order of preference), and why, as a clause."""

    write: str
    read: tuple[str, ...]
    reason: str


def scopes_of(environ: Mapping[str, str], *, has_key: bool) -> JobScopes:
    """The scopes of the job that has these variables.

    A pull request never writes to `signed`, whatever key it has.
    """
    own, reason = _own_scope(environ)
    trusted, trusted_reason = is_default_branch_build(environ)
    if trusted and has_key:
        return JobScopes(write=SIGNED, read=(SIGNED,), reason=trusted_reason)
    if trusted:
        reason = f"{trusted_reason}, and there is no key"
    return JobScopes(write=own, read=(own, SIGNED), reason=reason)


def namespace_of(scope: str) -> str:
    """The namespace of signatures in `scope`: `ci-doctor-cache`, or `ci-doctor-cache@pr-12`."""
    return NAMESPACE if scope == SIGNED else f"{NAMESPACE}@{scope}"


def readable_packs(scope: str) -> frozenset[str]:
    """The scopes in whose packs a manifest of `scope` may have its bytes."""
    return frozenset({scope, SIGNED})


def _own_scope(environ: Mapping[str, str]) -> tuple[str, str]:
    job = JobEnvironment.from_environ(environ)
    if job is None:
        return LOCAL, "this is no Buildkite job"
    request = environ.get("BUILDKITE_PULL_REQUEST", "")
    if request.isascii() and request.isdigit():
        return f"pr-{int(request)}", f"this is a build of pull request {int(request)}"
    branch = job.branch or "unknown"
    return f"branch-{_slug(branch)}", f"this is a build of branch {branch}"


def _slug(branch: str) -> str:
    """The branch's name in plain characters; with a digest, because a/b and a-b are two branches."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", branch)[:_NAME_CHARACTERS].strip("-.")
    digest = hashlib.sha256(branch.encode(errors="surrogateescape")).hexdigest()[:8]
    return f"{plain}-{digest}" if plain else digest


# --- what is restored is executed ---


class TrustPolicy(enum.StrEnum):
    """Whose content is used.

    signed: what an allowed signer has signed. local: also the rest, from a directory to which this
    user alone can write. any: everything, with a warning.
    """

    SIGNED = "signed"
    LOCAL = "local"
    ANY = "any"


class TrustRules(msgspec.Struct, frozen=True, kw_only=True):
    """The policy, the signers (None if no file of them is given), and the time in ms since the epoch."""

    policy: TrustPolicy
    allowed: AllowedSigners | None
    now_ms: int


class Vouched(msgspec.Struct, frozen=True, kw_only=True):
    """Content that may be used: who has signed it, or what is accepted without that.

    `signer` has the principals of a line of the allowed signers. `warning` is a sentence for people.
    """

    signer: str | None = None
    warning: str | None = None


def vouch(
    content: bytes, armored: str | None, scope: str, rules: TrustRules, *, shared: bool
) -> Vouched:
    """Who vouches for `content` of `scope`. Raises UntrustedError if nobody does who may.

    `armored` is the signature beside it, if there is one; `shared` says that others can write to
    the store. A signature that does not fit is refused by every policy.
    """
    if armored is None:
        error = UntrustedError(
            Distrust.UNSIGNED,
            "it is not signed",
            hint="sign with --key where caches are saved, and name the signers here",
        )
        return _without_signer(error, rules.policy, shared=shared)
    allowed = rules.allowed
    if allowed is None:
        allowed = AllowedSigners(
            source="an empty list (--allowed-signers is not given)", signers=()
        )
    try:
        signer = verify(content, armored, allowed, namespace_of(scope), rules.now_ms)
    except UntrustedError as error:
        if error.distrust is not Distrust.UNKNOWN_KEY:
            raise
        return _without_signer(error, rules.policy, shared=shared)
    return Vouched(signer=signer)


def accepts_unsigned(policy: TrustPolicy, *, shared: bool) -> bool:
    """Whether a reader with `policy` takes what nobody has signed. shared: others can write to the store."""
    return policy is TrustPolicy.ANY or (policy is TrustPolicy.LOCAL and not shared)


def _without_signer(error: UntrustedError, policy: TrustPolicy, *, shared: bool) -> Vouched:
    """What the policy accepts although nobody vouches for it. Raises `error` if it does not."""
    if policy is TrustPolicy.ANY:
        warning = f"used by --trust any, and it runs code in this job: {error.message}"
        if shared:
            warning += "; whoever can write to the store may have made it"
        return Vouched(warning=warning)
    if accepts_unsigned(policy, shared=shared):
        return Vouched()
    raise error


# --- which there are, and what one holds if it may be used ---


class CandidateManifest(msgspec.Struct, frozen=True, kw_only=True):
    """A manifest that may be used, where it lies, and who vouches for it."""

    name: str
    scope: str
    manifest: Manifest
    vouched: Vouched


def manifests(store: ObjectStore, scopes: Iterable[str], family: str, hard: str) -> list[str]:
    """The names of all manifests of a family and a hard identity (32 hex digits), newest first.

    Of the same time, those of an earlier scope come first. Nothing is read but names. Raises
    StoreError.
    """
    dated = []
    for place, scope in enumerate(scopes):
        for entry in store.names(manifests_prefix(scope, family, hard)):
            parsed = parse_manifest_name(entry.name)
            if parsed is not None:
                dated.append((-parsed.created_ms, place, entry.name))
    return [name for _, _, name in sorted(dated)]


def read_manifest(
    store: ObjectStore, name: str, rules: TrustRules, limits: StoreLimits
) -> CandidateManifest:
    """The manifest of this name, if it may be used.

    The signature is checked before anything is decompressed or parsed. Raises UntrustedError if
    nobody vouches for it, if it has expired, or stands under a name that is not its own; DamagedError
    and LimitError as decode() and check_manifest() do; StoreError if the store fails.
    """
    parsed = parse_manifest_name(name)
    if parsed is None:
        raise DamagedError(f"{name} is not the name of a manifest")
    content = store.read(name, limits.manifest_bytes)
    if content is None:
        raise StoreError(StoreFailure.MISSING, f"{store.location}/{name} does not exist any more")
    signature = store.read(signature_name(name), MOST_ARMORED_BYTES)
    armored = None if signature is None else signature.decode(errors="replace")
    vouched = vouch(content, armored, parsed.scope, rules, shared=store.shared)
    digest = hashlib.sha256(content).hexdigest()
    if digest != parsed.sha256:
        raise DamagedError(f"{name} was changed: its bytes do not have the digest in its name")
    manifest = decode(content, limits)
    check_manifest(manifest, limits)
    _check_place(name, digest, manifest)
    if manifest.expires_ms <= rules.now_ms:
        hours = (rules.now_ms - manifest.expires_ms) // 3_600_000
        raise UntrustedError(
            Distrust.EXPIRED, f"it expired {hours} hours ago", hint="save the cache again"
        )
    return CandidateManifest(name=name, scope=parsed.scope, manifest=manifest, vouched=vouched)


def _check_place(name: str, digest: str, manifest: Manifest) -> None:
    """Raise UntrustedError unless the manifest belongs under `name`, and its packs to the scope."""
    try:
        scope = check_name(name, manifest, digest)
    except DamagedError as error:
        raise UntrustedError(
            Distrust.REPLAYED, "it was saved for another identity and copied here"
        ) from error
    foreign = {pack.scope for pack in manifest.packs} - readable_packs(scope)
    if foreign:
        message = f"it refers to packs of {', '.join(sorted(foreign))}, which {scope} may not use"
        raise UntrustedError(Distrust.REPLAYED, message)

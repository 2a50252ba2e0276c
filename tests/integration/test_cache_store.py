"""From a saved tree to a restored one through each kind of place, with signatures that ssh-keygen reads."""

import random
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from ci_doctor.store.directory_store import open_store
from ci_doctor.store.manifest import signature_name
from ci_doctor.store.objects import ObjectStore, StoreLimits
from ci_doctor.store.restore import RestoreRules, restore_tree
from ci_doctor.store.save import SavedTree, SaveRules, save_tree
from ci_doctor.store.signer import generate_key, load_signer
from ci_doctor.store.transfer import Deadline
from ci_doctor.store.trust import (
    AllowedSigners,
    Distrust,
    TrustPolicy,
    TrustRules,
    UntrustedError,
    manifests,
    namespace_of,
    read_manifest,
)
from tests.support.s3_server import BUCKET, s3_server
from tests.support.saved_trees import TIER, header

pytestmark = pytest.mark.integration
LIMITS = StoreLimits()
HARD = TIER.digest()[:32]


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    with s3_server() as environ:
        yield environ


@pytest.fixture(params=["directory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "directory":
        return open_store(str(tmp_path / "store"), {}, timeout_s=120)
    environ = request.getfixturevalue("s3")
    return open_store(f"s3://{BUCKET}/{tmp_path.name}", environ, timeout_s=120)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    line = generate_key(tmp_path / "key")
    (tmp_path / "allowed").write_text(f'ci@warm namespaces="ci-doctor-cache*" {line}\n')
    return tmp_path / "key"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    (folder / "kernel").mkdir(parents=True)
    (folder / "kernel" / "a.cubin").write_bytes(random.Random(1).randbytes(50_000))
    (folder / "kernel" / "__grp__a.json").write_text("{}")
    return folder


def save(store: ObjectStore, tree: Path, scope: str, key: Path, created_ms: int) -> SavedTree:
    lasting = replace(header(tree), created_ms=created_ms, expires_ms=created_ms + 3_600_000)
    signer = load_signer(key, namespace_of(scope))
    return save_tree(
        store, tree, lasting, SaveRules(scope=scope, deadline=Deadline(120), signer=signer)
    )


def rules(key: Path) -> TrustRules:
    allowed = AllowedSigners.read(key.with_name("allowed"))
    return TrustRules(policy=TrustPolicy.SIGNED, allowed=allowed, now_ms=int(time.time() * 1000))


def test_a_signed_tree_comes_back_as_it_was(
    store: ObjectStore, tree: Path, key: Path, tmp_path: Path
) -> None:
    saved = save(store, tree, "signed", key, int(time.time() * 1000))

    (name,) = manifests(store, ("pr-7", "signed"), "triton", HARD)
    candidate = read_manifest(store, name, rules(key), LIMITS)
    restored = restore_tree(
        store, candidate.manifest, tmp_path / "restored", RestoreRules(deadline=Deadline(120))
    )

    assert (saved.manifest_name, saved.created) == (name, True)
    assert candidate.vouched.signer == "ci@warm"
    assert restored.files == 2
    for path in ("kernel/a.cubin", "kernel/__grp__a.json"):
        assert (tmp_path / "restored" / path).read_bytes() == (tree / path).read_bytes()


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
def test_ssh_keygen_verifies_what_lies_in_the_store(
    store: ObjectStore, tree: Path, key: Path, tmp_path: Path
) -> None:
    name = save(store, tree, "pr-7", key, int(time.time() * 1000)).manifest_name
    (tmp_path / "sig").write_bytes(store.read(signature_name(name), 10**6) or b"")

    allowed = ("-f", tmp_path / "allowed", "-I", "ci@warm", "-s", tmp_path / "sig")
    codes = [
        subprocess.run(
            ["ssh-keygen", "-Y", "verify", "-n", namespace, *map(str, allowed)],
            input=store.read(name, 10**6),
            capture_output=True,
            check=False,
            timeout=60,
        ).returncode
        for namespace in ("ci-doctor-cache@pr-7", "ci-doctor-cache")
    ]

    assert codes[0] == 0
    assert codes[1] != 0


def test_what_a_pull_request_saved_is_not_what_main_signed(
    store: ObjectStore, tree: Path, key: Path
) -> None:
    name = save(store, tree, "pr-7", key, int(time.time() * 1000)).manifest_name
    planted = name.replace("/pr-7/", "/signed/")
    for source, target in ((name, planted), (signature_name(name), signature_name(planted))):
        store.create(target, store.read(source, 10**6) or b"")

    assert read_manifest(store, name, rules(key), LIMITS).scope == "pr-7"
    with pytest.raises(UntrustedError) as raised:
        read_manifest(store, planted, rules(key), LIMITS)
    assert raised.value.distrust is Distrust.WRONG_NAMESPACE


def test_of_jobs_that_save_the_same_at_once_one_is_first(
    store: ObjectStore, tree: Path, key: Path
) -> None:
    created_ms = int(time.time() * 1000)
    barrier = threading.Barrier(3)
    saved: list[SavedTree] = []

    def job() -> None:
        barrier.wait()
        saved.append(save(store, tree, "signed", key, created_ms))

    threads = [threading.Thread(target=job) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(each.created for each in saved) == [False, False, True]
    (name,) = manifests(store, ("signed",), "triton", HARD)
    assert read_manifest(store, name, rules(key), LIMITS).vouched.signer == "ci@warm"

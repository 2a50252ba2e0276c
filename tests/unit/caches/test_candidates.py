"""Which saved caches a family may take."""

import pytest

from ci_doctor.caches.trusted_store import read_names
from ci_doctor.store.objects import StoreError, StoreFailure, TooLargeError
from ci_doctor.store.trust import CandidateManifest, Vouched
from tests.support.saved_manifests import saved_manifest

WHOLE = saved_manifest(1, 2)


class Source:
    """A trusted store in which reading some names fails."""

    def __init__(self, failures: dict[str, StoreError]) -> None:
        self._failures = failures

    def read(self, name: str) -> CandidateManifest:
        if name in self._failures:
            raise self._failures[name]
        return CandidateManifest(name=name, scope="local", manifest=WHOLE, vouched=Vouched())


def test_a_manifest_that_garbage_collection_has_removed_leaves_the_older_ones() -> None:
    gone = StoreError(StoreFailure.MISSING, "it does not exist any more")

    candidates = read_names(Source({"new": gone}), ["new", "old"])  # type: ignore[arg-type]

    assert list(candidates.manifests) == ["old"]
    assert candidates.refused == ()


def test_a_manifest_above_the_limit_is_refused_and_leaves_the_older_ones() -> None:
    large = TooLargeError("it has more than 64 bytes")

    candidates = read_names(Source({"new": large}), ["new", "old"])  # type: ignore[arg-type]

    assert list(candidates.manifests) == ["old"]
    assert candidates.refused == ("it has more than 64 bytes",)


def test_many_that_nobody_trusts_do_not_hide_the_one_that_somebody_signed() -> None:
    junk = {f"junk {number}": TooLargeError("junk") for number in range(20)}

    candidates = read_names(Source(dict(junk)), [*junk, "old", "older"], most=1)  # type: ignore[arg-type]

    assert list(candidates.manifests) == ["old"]
    assert len(candidates.refused) == 20


def test_a_store_that_does_not_answer_ends_the_look() -> None:
    silent = StoreError(StoreFailure.TIMEOUT, "no answer")

    with pytest.raises(StoreError, match="no answer"):
        read_names(Source({"new": silent}), ["new", "old"])  # type: ignore[arg-type]

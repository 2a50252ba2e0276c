"""What `cache explain` says of the saved caches, over a store in a directory."""

from pathlib import Path

import pytest

from ci_doctor.caches.families import FAMILIES
from ci_doctor.caches.judge import Tiers
from ci_doctor.caches.targets import IdentifiedCache, tier_of
from ci_doctor.caches.trusted_store import TrustedStore, explain
from ci_doctor.identity.identity import Identity
from ci_doctor.model.facts.cache import ExplainedCache
from ci_doctor.store.directory_store import DirectoryStore
from ci_doctor.store.trust import TrustPolicy, TrustRules
from tests.support.saved_manifests import EMPTY_FILE, put_manifest, saved_manifest

NOW = 1_795_000_000_000
MINUTE = 60_000
TRITON = FAMILIES["triton"]
HERE = Identity.of({"distribution.triton": "3.9.0"})
NONE = Identity.of({})


class Saved:
    """A store of this user alone, and this machine's look at it."""

    def __init__(self, folder: Path) -> None:
        self.store = DirectoryStore(folder / "store")
        self.cache = IdentifiedCache(
            family=TRITON,
            directory=folder / "triton",
            tiers=Tiers(hard=HERE, path=NONE, soft=NONE),
        )

    def put(self, hard: Identity, created_ms: int, *, lasts_ms: int = NOW) -> None:
        expires_ms = created_ms + lasts_ms
        manifest = saved_manifest(created_ms, expires_ms, hard=tier_of(hard), files=(EMPTY_FILE,))
        put_manifest(self.store, "local", manifest)

    def put_others(self, count: int) -> None:
        """So many of other identities, each newer than the last."""
        for number in range(count):
            other = Identity.of({"distribution.triton": f"4.{number}"})
            self.put(other, NOW - 20 * MINUTE + number)

    def explain(self) -> ExplainedCache:
        rules = TrustRules(policy=TrustPolicy.LOCAL, allowed=None, now_ms=NOW)
        return explain(self.cache, TrustedStore(store=self.store, scopes=("local",), rules=rules))


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    return Saved(tmp_path)


def test_newer_caches_of_other_identities_do_not_hide_the_one_that_fits(saved: Saved) -> None:
    saved.put(HERE, NOW - 60 * MINUTE)
    saved.put_others(25)

    explained = saved.explain()

    assert explained.would == "restore what was saved 2026-11-18T10:06:40Z"
    assert [fact.name for fact in explained.facts if fact.differs] == []


def test_without_one_that_fits_the_nearest_of_the_newest_is_compared(saved: Saved) -> None:
    saved.put_others(25)

    explained = saved.explain()

    assert explained.would == (
        "not restore: the nearest is of another identity: distribution.triton 4.24 -> 3.9.0"
    )
    assert [(fact.saved, fact.here) for fact in explained.facts if fact.differs] == [
        ("4.24", "3.9.0")
    ]


def test_the_refusal_of_the_one_that_fits_is_said_and_not_another_ones_difference(
    saved: Saved,
) -> None:
    saved.put(HERE, NOW - 60 * MINUTE, lasts_ms=MINUTE)
    saved.put_others(3)

    assert saved.explain().would == "refuse it: it expired 0 hours ago"


def test_a_store_with_nothing_has_nothing_to_compare(saved: Saved) -> None:
    assert saved.explain().would == "nothing is saved"

# SPDX-License-Identifier: Apache-2.0

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.caches.families import INDUCTOR_CPU, INDUCTOR_HEADERS, TRITON
from ci_doctor.caches.judge import (
    CacheCandidate,
    Inert,
    RefusedCache,
    Relocate,
    Tiers,
    Usable,
    choose,
    nearest,
    usable,
)
from ci_doctor.identity.identity import Identity

VALUES = st.sampled_from(["1", "2", None])
FACTS = st.fixed_dictionaries({"a": VALUES, "b": VALUES})


def identity(facts: dict[str, str | None]) -> Identity:
    """None: unknown."""
    known = {name: value for name, value in facts.items() if value is not None}
    return Identity.of(known, {name: "nobody knows" for name in facts if name not in known})


def tiers(
    hard: dict[str, str | None] | None = None,
    path: dict[str, str | None] | None = None,
    soft: dict[str, str | None] | None = None,
    root: str = "/cache",
) -> Tiers:
    return Tiers(
        hard=identity(hard or {"cpu.isa": "avx2"}),
        path=identity({"cache.root": root, **(path or {})}),
        soft=identity(soft or {}),
    )


def test_an_equal_identity_is_usable_as_it_is() -> None:
    assert usable(INDUCTOR_CPU, tiers(), tiers()) == Usable()


def test_a_cache_of_another_cpu_is_refused_by_the_name_of_the_fact() -> None:
    decision = usable(INDUCTOR_CPU, tiers({"cpu.isa": "avx512"}), tiers({"cpu.isa": "avx2"}))

    assert isinstance(decision, RefusedCache)
    assert [each.describe() for each in decision.differences] == ["cpu.isa avx512 -> avx2"]


@pytest.mark.parametrize(("saved", "here"), [(None, "avx2"), ("avx2", None), (None, None)])
def test_a_hard_fact_that_a_side_does_not_know_refuses(saved: str | None, here: str | None) -> None:
    decision = usable(INDUCTOR_CPU, tiers({"cpu.isa": saved}), tiers({"cpu.isa": here}))

    assert isinstance(decision, RefusedCache)
    assert decision.differences[0].knowledge


@pytest.mark.parametrize("here", ["/venv-2", None])
def test_an_environment_at_another_path_makes_a_cpu_cache_inert(here: str | None) -> None:
    saved = tiers(path={"python.environment": "/venv-1"})

    decision = usable(INDUCTOR_CPU, saved, tiers(path={"python.environment": here}))

    assert isinstance(decision, Inert)
    assert [each.fact for each in decision.differences] == ["python.environment"]


def test_another_directory_is_relocated_ignored_or_inert_as_the_family_says() -> None:
    saved, here = tiers(root="/old"), tiers(root="/new")

    assert usable(TRITON, saved, here) == Relocate(old_root="/old", new_root="/new")
    assert usable(INDUCTOR_CPU, saved, here) == Usable()
    assert isinstance(usable(INDUCTOR_HEADERS, saved, here), Inert)


def test_soft_facts_choose_and_never_block() -> None:
    here = tiers(soft={"job.branch": "main", "model": "a"})
    other = CacheCandidate(name="other", created_ms=9, tiers=tiers(soft={"model": "b"}))
    old = CacheCandidate(name="old", created_ms=1, tiers=here)
    new = CacheCandidate(name="new", created_ms=2, tiers=here)
    refused = CacheCandidate(name="refused", created_ms=10, tiers=tiers({"cpu.isa": "avx512"}))

    best = choose(INDUCTOR_CPU, [other, old, refused, new], here)

    assert best is not None
    assert best[0].name == "new"
    lonely = choose(INDUCTOR_CPU, [other], here)
    assert lonely is not None
    assert [each.fact for each in lonely[1].soft] == ["job.branch", "model"]
    assert choose(INDUCTOR_CPU, [refused], here) is None


def test_the_nearest_cache_is_shown_fact_by_fact() -> None:
    here = tiers({"cpu.isa": "avx2", "glibc": "2.36", "compiler": "12"})
    far = tiers({"cpu.isa": "avx512", "glibc": "2.31", "compiler": "12"})
    near = tiers({"cpu.isa": "avx512", "glibc": "2.36", "compiler": "12"}, root="/elsewhere")

    found = nearest(
        INDUCTOR_CPU,
        [
            CacheCandidate(name="far", created_ms=2, tiers=far),
            CacheCandidate(name="near", created_ms=1, tiers=near),
        ],
        here,
    )

    assert found is not None
    assert found.candidate.name == "near"
    assert [each.describe() for each in found.hard] == ["cpu.isa avx512 -> avx2"]
    assert isinstance(found.decision, RefusedCache)
    assert nearest(INDUCTOR_CPU, [], here) is None


@given(FACTS, FACTS)
def test_a_cache_is_never_used_unless_every_hard_fact_is_known_and_equal(
    saved: dict[str, str | None], here: dict[str, str | None]
) -> None:
    decision = usable(INDUCTOR_CPU, tiers(saved), tiers(here))

    agrees = saved == here and None not in saved.values()
    assert isinstance(decision, Usable) == agrees

"""Where a job reads and writes."""

import pytest

from ci_doctor.store.manifest import is_segment
from ci_doctor.store.trust import namespace_of, readable_packs, scopes_of

MAIN = {
    "BUILDKITE": "true",
    "BUILDKITE_JOB_ID": "0190-j",
    "BUILDKITE_BRANCH": "main",
    "BUILDKITE_PIPELINE_DEFAULT_BRANCH": "main",
    "BUILDKITE_PULL_REQUEST": "false",
}


def test_the_default_branch_with_a_key_fills_what_all_read() -> None:
    scopes = scopes_of(MAIN, has_key=True)

    assert (scopes.write, scopes.read) == ("signed", ("signed",))
    assert "default branch main" in scopes.reason


def test_the_default_branch_without_a_key_does_not() -> None:
    scopes = scopes_of(MAIN, has_key=False)

    assert scopes.write.startswith("branch-main-")
    assert scopes.read == (scopes.write, "signed")
    assert "there is no key" in scopes.reason


@pytest.mark.parametrize("has_key", [True, False])
@pytest.mark.parametrize("branch", ["main", "fork:main", "topic"])
def test_a_pull_request_reads_what_main_signed_and_writes_to_its_own(
    branch: str, has_key: bool
) -> None:
    environ = {**MAIN, "BUILDKITE_PULL_REQUEST": "17", "BUILDKITE_BRANCH": branch}

    scopes = scopes_of(environ, has_key=has_key)

    assert (scopes.write, scopes.read) == ("pr-17", ("pr-17", "signed"))


@pytest.mark.parametrize("request_", ["", "signed", "../signed", "٣", "1/../../signed"])
def test_an_odd_pull_request_is_never_the_default_branch(request_: str) -> None:
    scopes = scopes_of({**MAIN, "BUILDKITE_PULL_REQUEST": request_}, has_key=True)

    assert scopes.write.startswith("branch-main-")


def test_outside_ci_a_scope_is_local() -> None:
    assert scopes_of({}, has_key=True).write == "local"


@pytest.mark.parametrize("branch", ["a/b", "a-b", "ä", "..", "-x", "x" * 300, "signed", "a\udcff"])
def test_each_branch_has_a_scope_of_its_own(branch: str) -> None:
    scope = scopes_of({**MAIN, "BUILDKITE_BRANCH": branch}, has_key=True).write

    other = scopes_of({**MAIN, "BUILDKITE_BRANCH": f"{branch}/"}, has_key=True).write
    assert is_segment(scope)
    assert scope.startswith("branch-")
    assert scope != other


def test_a_signature_names_its_scope() -> None:
    assert [namespace_of(scope) for scope in ("signed", "pr-7")] == [
        "ci-doctor-cache",
        "ci-doctor-cache@pr-7",
    ]


def test_what_is_signed_rests_on_signed_packs_alone() -> None:
    assert readable_packs("signed") == {"signed"}
    assert readable_packs("pr-7") == {"pr-7", "signed"}

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.store.manifest import check_paths, path_fault
from ci_doctor.store.objects import DamagedError, LimitError, StoreLimits


@pytest.mark.parametrize(
    "paths",
    [
        ["a", "a"],
        ["Kernel.so", "kernel.so"],
        ["A/x", "a/y"],
        ["a", "a/b"],
        ["a/b", "a"],
        ["a/b/c", "A/B"],
        ["straße", "STRASSE"],
    ],
)
def test_paths_that_collide_are_refused(paths: list[str]) -> None:
    with pytest.raises(LimitError):
        check_paths(paths, StoreLimits())


@given(st.lists(st.text(alphabet="aB./\0é", max_size=8), max_size=6))
def test_paths_that_pass_stay_below_a_directory_and_apart(paths: list[str]) -> None:
    try:
        check_paths(paths, StoreLimits())
    except DamagedError:
        return
    for path in paths:
        parts = path.split("/")
        assert not {"", ".", ".."} & set(parts)
        assert "\0" not in path
    folded = [path.casefold() for path in paths]
    assert len(set(folded)) == len(folded)
    assert not any(a.startswith(f"{b}/") for a in folded for b in folded)


def test_a_path_that_is_refused_stands_in_no_other_ones_way() -> None:
    fault = path_fault(StoreLimits())

    assert fault("a/\n") is not None
    assert fault("a") is None

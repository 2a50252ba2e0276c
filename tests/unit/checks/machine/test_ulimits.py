# SPDX-License-Identifier: Apache-2.0
import resource
from pathlib import Path

import pytest

from ci_doctor.checks.machine.ulimits import (
    CHECK,
    Limits,
    ResourceLimit,
    problems_of,
    read_limits,
)
from ci_doctor.checks.settings import DoctorSettings
from ci_doctor.model.finding import Finding, Severity
from tests.support.checks import check_context
from tests.support.machine_trees import GIB, MIB, write_tree

NONE = ResourceLimit(soft=resource.RLIM_INFINITY, hard=resource.RLIM_INFINITY)


def limits(**changes: ResourceLimit) -> Limits:
    """Those of a shell on Debian, which are enough, and `changes`."""
    usual = dict.fromkeys(read_limits(), NONE)
    usual["nofile"] = ResourceLimit(soft=1024, hard=1048576)
    usual["stack"] = ResourceLimit(soft=8 * MIB, hard=resource.RLIM_INFINITY)
    usual["core"] = ResourceLimit(soft=0, hard=resource.RLIM_INFINITY)
    usual["memlock"] = ResourceLimit(soft=8 * MIB, hard=8 * MIB)
    return {**usual, **changes}


def findings(root: Path, limits: Limits, workload: str | None = None) -> list[Finding]:
    settings = DoctorSettings(workload="vllm") if workload else None
    context = check_context(root, root=root, settings=settings)
    return [each.finding for each in problems_of(limits, context)]


def test_the_usual_limits_of_a_shell_are_enough(tmp_path: Path) -> None:
    assert findings(tmp_path, limits()) == []


def test_a_server_needs_more_files_than_a_shell_has(tmp_path: Path) -> None:
    (finding,) = findings(tmp_path, limits(), "vllm")

    assert finding.severity is Severity.WARNING
    assert finding.remedy == "ulimit -n 65535"


def test_the_remedy_stays_below_the_hard_limit(tmp_path: Path) -> None:
    files = ResourceLimit(soft=1024, hard=8192)

    (finding,) = findings(tmp_path, limits(nofile=files), "vllm")

    assert finding.remedy == "ulimit -n 8192"


def test_a_low_hard_limit_is_a_matter_of_the_container(tmp_path: Path) -> None:
    files = ResourceLimit(soft=1024, hard=1024)

    (finding,) = findings(tmp_path, limits(nofile=files))

    assert finding.summary.endswith("the hard limit is 1024")
    assert "--ulimit nofile=65535" in (finding.remedy or "")


@pytest.mark.parametrize(
    ("name", "soft", "words"),
    [
        ("stack", MIB, "the stack of each thread is 1.0 MB"),
        ("as", 8 * GIB, "the address space is limited to 8.6 GB"),
        ("data", GIB, "each process may have 1.1 GB of data"),
        ("fsize", GIB, "a file may have 1.1 GB"),
    ],
)
def test_each_limit_that_ends_programs_is_named(
    tmp_path: Path, name: str, soft: int, words: str
) -> None:
    root = write_tree(tmp_path, {"proc/meminfo": f"MemTotal: {16 * GIB // 1024} kB\n"})
    low = ResourceLimit(soft=soft, hard=resource.RLIM_INFINITY)

    (finding,) = findings(root, limits(**{name: low}))

    assert finding.summary.startswith(words)
    assert (finding.remedy or "").startswith("ulimit -")


def test_an_address_space_far_above_the_memory_is_no_limit(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"proc/meminfo": f"MemTotal: {16 * GIB // 1024} kB\n"})
    wide = ResourceLimit(soft=1024 * GIB, hard=1024 * GIB)

    assert findings(root, limits(**{"as": wide})) == []


def test_locked_memory_matters_if_there_is_rdma(tmp_path: Path) -> None:
    write_tree(tmp_path, {"dev/infiniband/uverbs0": ""})

    (without,) = findings(tmp_path, limits())
    with_server = findings(tmp_path, limits(), "vllm")

    assert without.severity is Severity.NOTE
    assert [each.severity for each in with_server] == [Severity.WARNING] * 2


def test_the_limits_of_this_process_are_read(tmp_path: Path) -> None:
    result = CHECK.run(check_context(tmp_path))

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    shown = "unlimited" if soft == resource.RLIM_INFINITY else str(soft)
    assert result.figures["nofile"] == shown
    assert result.summary == f"{shown} files may be open"

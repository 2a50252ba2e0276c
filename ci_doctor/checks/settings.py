# SPDX-License-Identifier: Apache-2.0
"""Pure. The `[doctor]` section."""

from typing import Literal

from msgspec import Struct

WorkloadName = Literal["vllm", "lmcache", "sglang", "correctness"]


class OwnCheck(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A check of the repository: a command, split as a shell would split words; no shell runs it.

    Exit status 0 is ok, 75 an error of the environment; 86, 126, 127 and the end by a signal are
    unknown; any other is a problem of `severity`, the fault of `fault`. The last line on stdout is the summary. `timeout` is seconds or
    text for parse_duration. `needed_for` names the workloads whose verdict rests on it.
    """

    command: str | list[str]
    timeout: str | int | float = "5s"
    fault: Literal["environment", "repository"] = "environment"
    severity: Literal["error", "warning"] = "error"
    remedy: str | None = None
    needed_for: list[WorkloadName] = []


class DoctorSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of `[doctor]`.

    `workload` is what `--for` names. `skip` are ids of checks, or patterns (fnmatch). `caches` are
    further directories whose disk is checked; `min_free` is what each disk must have free, bytes or
    text for parse_size. `shared_memory` is what /dev/shm must have. `gpu_memory_free` is the share
    (0 to 1) of each GPU's memory that must be free if no service says what it needs. `entry_points`
    are commands for `--imports`. `hosts` are names that must have an address. `since_green` is the
    snapshot, or the report directory, of the last green run.
    """

    workload: WorkloadName | None = None
    strict: bool = False
    skip: list[str] = []
    venvs: list[str] = []
    pythons: list[str] = []
    caches: list[str] = []
    min_free: str | int = "5GiB"
    shared_memory: str | int = "1GiB"
    gpu_memory_free: float | None = None
    entry_points: list[str] = []
    hosts: list[str] = []
    since_green: str | None = None
    checks: dict[str, OwnCheck] = {}

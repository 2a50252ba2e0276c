# SPDX-License-Identifier: Apache-2.0
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.environment.determinism import AS_REQUESTED, Determinism, Profile, decide, differing
from ci_doctor.environment.determinism_table import BY_NAME, TABLE, VariableRow
from ci_doctor.model.outcome import Severity

ENVIRONMENTS = st.dictionaries(
    st.sampled_from([row.name for row in TABLE]), st.sampled_from(["0", "1", "", "x", ":4096:8"])
)


def rules(decided: Determinism) -> list[str]:
    return [finding.rule.removeprefix("determinism/") for finding in decided.findings]


def values(decided: Determinism) -> dict[str, str]:
    return {variable.name: variable.value for variable in decided.variables}


def test_the_default_profile_sets_what_costs_nothing() -> None:
    decided = decide(Profile.DEFAULT, {}, {})
    assert values(decided) == {
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "PYTHONHASHSEED": "0",
        "OMP_DYNAMIC": "FALSE",
        "MKL_DYNAMIC": "FALSE",
    }
    assert decided.findings == ()


def test_strict_sets_more_and_says_that_the_product_is_another() -> None:
    decided = decide(Profile.STRICT, {}, {})
    assert (
        values(decided).items()
        >= {"VLLM_BATCH_INVARIANT": "1", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}.items()
    )
    assert "strict" in rules(decided)


def test_what_strict_sets_itself_and_vllm_overwrites_is_a_note() -> None:
    overwritten = [
        finding
        for finding in decide(Profile.STRICT, {}, {}).findings
        if finding.rule.endswith("overwritten")
    ]
    assert {finding.severity for finding in overwritten} == {Severity.NOTE}


@given(st.sampled_from(Profile), ENVIRONMENTS)
def test_a_value_of_the_users_is_never_replaced(profile: Profile, environ: dict[str, str]) -> None:
    assert values(decide(profile, environ, {})).keys().isdisjoint(environ)


@given(st.sampled_from(Profile), ENVIRONMENTS)
def test_running_it_again_sets_the_same(profile: Profile, environ: dict[str, str]) -> None:
    first = values(decide(profile, environ, {}))
    assert values(decide(profile, {**environ, **first}, first)) == first


@given(st.sampled_from(Profile), ENVIRONMENTS)
def test_every_variable_that_will_be_set_is_accounted_for_once(
    profile: Profile, environ: dict[str, str]
) -> None:
    decided = decide(profile, environ, {})
    assert {row.name: row.requested for row in decided.requested} == {**environ, **values(decided)}
    assert len({row.name for row in decided.requested}) == len(decided.requested)


def test_off_sets_nothing_and_still_finds_what_is_wrong() -> None:
    decided = decide(Profile.OFF, {"NCCL_DETERMINISTIC": "1"}, {})
    assert (decided.variables, rules(decided)) == ((), ["no-effect"])


@pytest.mark.parametrize(
    ("environ", "rule"),
    [
        ({"NCCL_DETERMINISTIC": "1"}, "no-effect"),
        ({"FLASH_ATTENTION_DETERMINISTIC": "1"}, "no-effect"),
        ({"CUBLAS_WORKSPACE_CONFIG": "4096"}, "invalid-value"),
        ({"PYTHONHASHSEED": "abc"}, "invalid-value"),
        ({"PYTHONHASHSEED": "4294967296"}, "invalid-value"),
        ({"VLLM_BATCH_INVARIANT": "true"}, "invalid-value"),
        ({"VLLM_BATCH_INVARIANT": ""}, "invalid-value"),
        ({"SGLANG_USE_1STAGE_ALLREDUCE": "on"}, "invalid-value"),
        ({"NVIDIA_TF32_OVERRIDE": "true"}, "invalid-value"),
        ({"HCCL_DETERMINISTIC": "1"}, "invalid-value"),
        ({"OMP_NUM_THREADS": "many"}, "invalid-value"),
        ({"OMP_NUM_THREADS": "0"}, "invalid-value"),
        ({"NCCL_ALGO": "zzz"}, "invalid-value"),
        ({"NCCL_ALGO": "allreduce"}, "invalid-value"),
        ({"NCCL_ALGO": "Ring, Tree"}, "invalid-value"),
        ({"NCCL_ALGO": "allreduce:tree;ring"}, "invalid-value"),
        ({"NCCL_ALGO": "alltoall:ring"}, "invalid-value"),
        ({"NCCL_PROTO": "LL129"}, "invalid-value"),
        ({"NCCL_NTHREADS": "100"}, "invalid-value"),
        ({"TORCHINDUCTOR_BATCH_INVARIANT": "true"}, "invalid-value"),
        ({"TORCHINDUCTOR_BENCHMARK_FUSION": "1"}, "conflict"),
        ({"SGLANG_ENABLE_DETERMINISTIC_INFERENCE": "1"}, "no-effect"),
        ({"TORCHINDUCTOR_MAX_AUTOTUNE": "1"}, "conflict"),
        ({"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1", "NVIDIA_TF32_OVERRIDE": "0"}, "conflict"),
        ({"VLLM_BATCH_INVARIANT": "1", "NCCL_NVLS_ENABLE": "2"}, "overwritten"),
        ({"PYTHONHASHSEED": "random"}, "conflict"),
        ({"TORCHINDUCTOR_DETERMINISTIC": "1"}, "conflict"),
        ({"VLLM_TRITON_FORCE_FIRST_CONFIG": "1", "TRITON_CACHE_AUTOTUNING": "1"}, "conflict"),
        ({"VLLM_TRITON_FORCE_FIRST_CONFIG": "True", "TRITON_CACHE_AUTOTUNING": "on"}, "conflict"),
        ({"VLLM_TRITON_FORCE_FIRST_CONFIG": "2"}, "invalid-value"),
        ({"VLLM_BATCH_INVARIANT": "1", "NCCL_ALGO": "Ring"}, "overwritten"),
    ],
)
def test_what_is_wrong_is_a_finding_with_its_value_and_its_source(
    environ: dict[str, str], rule: str
) -> None:
    (finding,) = decide(Profile.OFF, environ, {}).findings
    name = next(
        name
        for name in environ
        if any(f"{name}=" in str(each.excerpt) for each in finding.evidence)
    )
    assert (finding.rule, finding.severity) == (f"determinism/{rule}", Severity.WARNING)
    assert (
        finding.evidence[-1].excerpt == f"source: {BY_NAME[name].source} ({BY_NAME[name].read_in})"
    )


@pytest.mark.parametrize(
    "setting",
    [
        "NCCL_ALGO=ring,collnetdirect;allreduce:tree,collnetdirect;broadcast:ring",
        "NCCL_ALGO=^NVLS,NVLSTree",
        "NCCL_ALGO=reducescatter:PAT",
        "NCCL_PROTO=LL,Simple;allreduce:^LL",
        "NCCL_PROTO=^LL128;allreduce:LL128",
        "NCCL_NTHREADS=256",
        "TORCHINDUCTOR_BATCH_INVARIANT=1",
    ],
)
def test_a_value_of_the_librarys_own_documents_is_accepted(setting: str) -> None:
    name, _, value = setting.partition("=")
    decided = decide(Profile.OFF, {name: value}, {})
    assert (rules(decided), decided.requested[0].effective) == ([], AS_REQUESTED)


@pytest.mark.parametrize("value", ["true", "on", "", "0", " 0 "])
def test_only_a_number_but_zero_turns_batch_invariance_on(value: str) -> None:
    environ = {"VLLM_BATCH_INVARIANT": value, "NCCL_ALGO": "Ring"}
    assert "overwritten" not in rules(decide(Profile.OFF, environ, {}))


def test_a_value_that_is_not_accepted_is_not_shown_as_effective() -> None:
    (requested,) = decide(Profile.OFF, {"VLLM_BATCH_INVARIANT": "true"}, {}).requested
    assert requested.effective == "not a value that vLLM, by int(), accepts"


def test_strict_names_an_algorithm_for_every_collective() -> None:
    # NCCL 2.31 fails on a collective that NCCL_ALGO does not name, and vLLM's own value names all.
    algorithms = values(decide(Profile.STRICT, {}, {}))["NCCL_ALGO"]
    assert algorithms.partition(";")[0] == "ring,tree"
    assert algorithms.endswith(";allreduce:tree")


@pytest.mark.parametrize("value", ["0", None])
def test_without_batch_invariant_mode_nothing_is_overwritten(value: str | None) -> None:
    environ = {
        "CUBLAS_WORKSPACE_CONFIG": ":16:8",
        **({} if value is None else {"VLLM_BATCH_INVARIANT": value}),
    }
    decided = decide(Profile.DEFAULT, environ, {})
    assert decided.requested[0].effective == AS_REQUESTED
    assert rules(decided) == []


def test_a_variable_of_a_stricter_run_that_stays_is_named() -> None:
    strict = values(decide(Profile.STRICT, {}, {}))
    decided = decide(Profile.DEFAULT, strict, strict)
    left = [finding for finding in decided.findings if finding.rule == "determinism/left-over"]
    assert {finding.remedy for finding in left} >= {"unset VLLM_BATCH_INVARIANT", "unset NCCL_ALGO"}
    assert not any("CUBLAS_WORKSPACE_CONFIG" in finding.summary for finding in left)


def test_two_environments_differ_in_what_either_lacks_or_has_otherwise() -> None:
    one = {"PYTHONHASHSEED": "0", "NCCL_ALGO": "Ring", "PATH": "/bin"}
    other = {"PYTHONHASHSEED": "1", "MKL_CBWR": "AVX2", "PATH": "/usr/bin"}
    assert set(differing(one, other)) == {"PYTHONHASHSEED", "NCCL_ALGO", "MKL_CBWR"}
    assert differing(one, one) == ()


class TestTable:
    def test_names_are_unique(self) -> None:
        assert len(BY_NAME) == len(TABLE)

    @pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
    def test_a_row_is_whole_and_sets_what_it_accepts(self, row: VariableRow) -> None:
        assert row.source
        assert row.read_in
        assert row.effect
        assert row.allowed or row.no_effect
        assert not (row.no_effect and (row.default or row.strict))
        # What the default profile sets, strict sets too.
        assert row.default is None or row.strict is not None
        for value in filter(None, (row.default, row.strict)):
            assert row.allowed is None or re.fullmatch(row.allowed, value)

    @pytest.mark.parametrize(
        "row", [row for row in TABLE if row.file is not None], ids=lambda row: row.name
    )
    def test_the_installed_package_still_reads_the_variable(self, row: VariableRow) -> None:
        package, _, rest = str(row.file).partition("/")
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            pytest.skip(f"{package} is not installed")
        assert row.name in (Path(spec.submodule_search_locations[0]) / rest).read_text()

    def test_python_accepts_the_hash_seeds_that_we_accept(self) -> None:
        pattern = BY_NAME["PYTHONHASHSEED"].allowed or ""
        for value in ("0", "random", "4294967295", "4294967296", "abc", "-1", "00"):
            ran = subprocess.run(
                [sys.executable, "-c", ""],
                check=False,
                env={"PYTHONHASHSEED": value},
                capture_output=True,
            )
            assert (ran.returncode == 0) == bool(re.fullmatch(pattern, value)), value

# SPDX-License-Identifier: Apache-2.0
"""Pure. The classes of failures, each with its policy on retries."""

from enum import StrEnum
from typing import Final

from msgspec import Struct


class RetryPolicy(StrEnum):
    """Whether running the job again can help: `yes`, `no`, or `ask` a person first."""

    YES = "yes"
    NO = "no"
    ASK = "ask"


class FailureClass(StrEnum):
    """What kind of failure a cause is; the values are what reports and rule files hold."""

    GPU_OUT_OF_MEMORY = "gpu-out-of-memory"
    HOST_OUT_OF_MEMORY = "host-out-of-memory"
    PORT_IN_USE = "port-in-use"
    IMPORT_RACE = "import-race"
    API_DRIFT = "api-drift"
    MISSING_DEPENDENCY = "missing-dependency"
    ABI_MISMATCH = "abi-mismatch"
    CUDA_ERROR = "cuda-error"
    GPU_HARDWARE = "gpu-hardware"
    RENDEZVOUS = "rendezvous"
    NETWORK = "network"
    REGISTRY = "registry"
    DISK = "disk"
    SHARED_MEMORY = "shared-memory"
    TIMEOUT = "timeout"
    STALLED = "stalled"
    AGENT_LOST = "agent-lost"
    SCM_VERSION = "scm-version"
    CONFIGURATION = "configuration"
    COMPILE_ERROR = "compile-error"
    LINT = "lint"
    TEST_ASSERTION = "test-assertion"
    CODE_BUG = "code-bug"


# What code and tests of the change themselves can be wrong in.
OF_CHANGE: Final = frozenset(
    {
        FailureClass.API_DRIFT,
        FailureClass.COMPILE_ERROR,
        FailureClass.LINT,
        FailureClass.TEST_ASSERTION,
        FailureClass.CODE_BUG,
    }
)


class ClassPolicy(Struct, frozen=True, kw_only=True):
    """What is known of a class before a log is read.

    title: the class in words. retry: whether another run can help. Whether the change is at fault
    is another question (`outside.py`).
    """

    title: str
    retry: RetryPolicy


POLICIES = {
    FailureClass.GPU_OUT_OF_MEMORY: ClassPolicy(title="GPU out of memory", retry=RetryPolicy.ASK),
    FailureClass.HOST_OUT_OF_MEMORY: ClassPolicy(title="host out of memory", retry=RetryPolicy.ASK),
    FailureClass.PORT_IN_USE: ClassPolicy(title="port in use", retry=RetryPolicy.YES),
    FailureClass.IMPORT_RACE: ClassPolicy(title="import race", retry=RetryPolicy.YES),
    FailureClass.API_DRIFT: ClassPolicy(title="API drift", retry=RetryPolicy.NO),
    FailureClass.MISSING_DEPENDENCY: ClassPolicy(title="missing dependency", retry=RetryPolicy.NO),
    FailureClass.ABI_MISMATCH: ClassPolicy(title="ABI mismatch", retry=RetryPolicy.NO),
    FailureClass.CUDA_ERROR: ClassPolicy(title="CUDA error", retry=RetryPolicy.ASK),
    FailureClass.GPU_HARDWARE: ClassPolicy(title="GPU hardware fault", retry=RetryPolicy.YES),
    FailureClass.RENDEZVOUS: ClassPolicy(title="NCCL or rendezvous", retry=RetryPolicy.ASK),
    FailureClass.NETWORK: ClassPolicy(title="network", retry=RetryPolicy.YES),
    FailureClass.REGISTRY: ClassPolicy(title="registry or rate limit", retry=RetryPolicy.YES),
    FailureClass.DISK: ClassPolicy(title="disk", retry=RetryPolicy.YES),
    FailureClass.SHARED_MEMORY: ClassPolicy(title="shared memory", retry=RetryPolicy.ASK),
    FailureClass.TIMEOUT: ClassPolicy(title="time-out, with progress", retry=RetryPolicy.ASK),
    FailureClass.STALLED: ClassPolicy(title="time-out, without progress", retry=RetryPolicy.ASK),
    FailureClass.AGENT_LOST: ClassPolicy(title="agent lost", retry=RetryPolicy.YES),
    FailureClass.SCM_VERSION: ClassPolicy(title="SCM version", retry=RetryPolicy.NO),
    FailureClass.CONFIGURATION: ClassPolicy(title="configuration", retry=RetryPolicy.NO),
    FailureClass.COMPILE_ERROR: ClassPolicy(title="compile error", retry=RetryPolicy.NO),
    FailureClass.LINT: ClassPolicy(title="lint", retry=RetryPolicy.NO),
    FailureClass.TEST_ASSERTION: ClassPolicy(title="test assertion", retry=RetryPolicy.NO),
    FailureClass.CODE_BUG: ClassPolicy(title="code bug", retry=RetryPolicy.NO),
}

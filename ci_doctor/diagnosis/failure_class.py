# SPDX-License-Identifier: Apache-2.0
"""Pure. The classes of failures, each with its policy on retries."""

from enum import StrEnum

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


class Policy(Struct, frozen=True, kw_only=True):
    """What is known of a class before a log is read.

    title: the class in words. retry: whether another run can help. is_outside: evidence of this
    class lies outside the change under test, whatever the line says. A rule may say it of its own
    line instead.
    """

    title: str
    retry: RetryPolicy
    is_outside: bool = False


POLICIES = {
    FailureClass.GPU_OUT_OF_MEMORY: Policy(title="GPU out of memory", retry=RetryPolicy.ASK),
    FailureClass.HOST_OUT_OF_MEMORY: Policy(title="host out of memory", retry=RetryPolicy.ASK),
    FailureClass.PORT_IN_USE: Policy(title="port in use", retry=RetryPolicy.YES),
    FailureClass.IMPORT_RACE: Policy(title="import race", retry=RetryPolicy.YES),
    FailureClass.API_DRIFT: Policy(title="API drift", retry=RetryPolicy.NO),
    FailureClass.MISSING_DEPENDENCY: Policy(title="missing dependency", retry=RetryPolicy.NO),
    FailureClass.ABI_MISMATCH: Policy(title="ABI mismatch", retry=RetryPolicy.NO),
    FailureClass.CUDA_ERROR: Policy(title="CUDA error", retry=RetryPolicy.ASK),
    FailureClass.GPU_HARDWARE: Policy(
        title="GPU hardware fault", retry=RetryPolicy.YES, is_outside=True
    ),
    FailureClass.RENDEZVOUS: Policy(title="NCCL or rendezvous", retry=RetryPolicy.ASK),
    FailureClass.NETWORK: Policy(title="network", retry=RetryPolicy.YES, is_outside=True),
    FailureClass.REGISTRY: Policy(
        title="registry or rate limit", retry=RetryPolicy.YES, is_outside=True
    ),
    FailureClass.DISK: Policy(title="disk", retry=RetryPolicy.YES, is_outside=True),
    FailureClass.SHARED_MEMORY: Policy(title="shared memory", retry=RetryPolicy.ASK),
    FailureClass.TIMEOUT: Policy(title="time-out, with progress", retry=RetryPolicy.ASK),
    FailureClass.STALLED: Policy(title="time-out, without progress", retry=RetryPolicy.ASK),
    FailureClass.AGENT_LOST: Policy(title="agent lost", retry=RetryPolicy.YES, is_outside=True),
    FailureClass.SCM_VERSION: Policy(title="SCM version", retry=RetryPolicy.NO),
    FailureClass.CONFIGURATION: Policy(title="configuration", retry=RetryPolicy.NO),
    FailureClass.COMPILE_ERROR: Policy(title="compile error", retry=RetryPolicy.NO),
    FailureClass.LINT: Policy(title="lint", retry=RetryPolicy.NO),
    FailureClass.TEST_ASSERTION: Policy(title="test assertion", retry=RetryPolicy.NO),
    FailureClass.CODE_BUG: Policy(title="code bug", retry=RetryPolicy.NO),
}

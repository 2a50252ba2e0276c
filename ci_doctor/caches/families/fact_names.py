# SPDX-License-Identifier: Apache-2.0
"""Pure. The names of facts by which a cache's validity is decided."""

MACHINE = (
    "os.architecture",
    "glibc",
    "cpu.isa",
    "cpu.model",
    "cpu.threads",
    "compiler",
    "compiler.native",
    "nvcc",
    "cuda.home",
)
GPUS = ("gpu.names", "gpu.capability", "driver", "driver.major")
PYTHON = (
    "python.abi",
    "python.base",
    "python.environment",
    "python.packages",
    "torch.git",
    "torch.cuda",
)
# The job's own variables at Buildkite.
JOB = {
    "job.pipeline": "BUILDKITE_PIPELINE_SLUG",
    "job.step": "BUILDKITE_STEP_KEY",
    "job.branch": "BUILDKITE_BRANCH",
    "job.directory": "BUILDKITE_BUILD_CHECKOUT_PATH",
}
OF_A_CACHE = ("cache.root", "package.times")
_NAMES = frozenset((*MACHINE, *GPUS, *PYTHON, *JOB, *OF_A_CACHE))


def is_fact_name(name: str) -> bool:
    """Whether a fact has this name; `package.NAME` is the build of a distribution."""
    return name in _NAMES or (name.startswith("package.") and len(name) > len("package."))

# SPDX-License-Identifier: Apache-2.0
"""Acts on GPUs, in the job's interpreter: what `ci-doctor doctor --gpu` measures there."""

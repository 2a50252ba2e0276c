# SPDX-License-Identifier: Apache-2.0
"""The GPUs, their driver, and the CUDA libraries."""

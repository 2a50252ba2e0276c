# SPDX-License-Identifier: Apache-2.0
"""Scripts that are well, and the same with a fault, for benchmarks/watching.py."""

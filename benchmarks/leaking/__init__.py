# SPDX-License-Identifier: Apache-2.0
"""Programs that leave things behind, or do not: for benchmarks/leaks.py."""

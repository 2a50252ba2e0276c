# SPDX-License-Identifier: Apache-2.0
"""Run: whether the candidate's output is the baseline's output, and whether the baseline agrees with itself."""

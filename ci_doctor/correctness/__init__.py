# SPDX-License-Identifier: Apache-2.0
"""Run: whether the candidate's output equals the baseline's, and the baseline's itself. Pure."""

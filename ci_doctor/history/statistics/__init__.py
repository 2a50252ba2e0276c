# SPDX-License-Identifier: Apache-2.0
"""Intervals, change-points and columns of failures."""

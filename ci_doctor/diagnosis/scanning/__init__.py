# SPDX-License-Identifier: Apache-2.0
"""Finds the lines of a log to which rules apply: literals over blocks, regexes on hits only."""

# SPDX-License-Identifier: Apache-2.0
"""Explain: a Buildkite job whose command has ended: its cause, the status to end with, its record."""

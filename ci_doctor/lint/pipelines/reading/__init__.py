# SPDX-License-Identifier: Apache-2.0
"""YAML with positions, and the steps and jobs in it."""

# SPDX-License-Identifier: Apache-2.0
"""Simulated experiments under noise, and whether the bound that their verdicts print is true."""

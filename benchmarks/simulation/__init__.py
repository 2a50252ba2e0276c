# SPDX-License-Identifier: Apache-2.0
"""Simulated servers, and the verdicts that the project's own decision reaches over them."""

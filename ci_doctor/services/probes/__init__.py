# SPDX-License-Identifier: Apache-2.0
"""Readiness: what a probe is, and how it is asked."""

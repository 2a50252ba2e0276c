# SPDX-License-Identifier: Apache-2.0
"""Readiness: what a probe is, and how its attempts are made. Pure."""

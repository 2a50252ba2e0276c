# SPDX-License-Identifier: Apache-2.0
"""Baseline starts of earlier builds, kept by identity (docs/archive.md). Pure."""

# SPDX-License-Identifier: Apache-2.0
"""Prepare: import-preload shims in other interpreters."""

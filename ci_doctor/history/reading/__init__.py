# SPDX-License-Identifier: Apache-2.0
"""Reads evidence: a module for each form of file."""

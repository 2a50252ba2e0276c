# SPDX-License-Identifier: Apache-2.0
"""Runs a command in which every Python records its imports, and reads what they wrote."""

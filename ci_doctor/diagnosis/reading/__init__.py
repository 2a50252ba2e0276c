# SPDX-License-Identifier: Apache-2.0
"""Reads logs of any size: as blocks for a scan, as lines around a place for an excerpt."""

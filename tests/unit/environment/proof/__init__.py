# SPDX-License-Identifier: Apache-2.0
"""Tests of ci_doctor/environment/proof."""

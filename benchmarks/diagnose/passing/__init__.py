# SPDX-License-Identifier: Apache-2.0
"""Logs of runs that passed: the jobs as data, their running, and the frames of CI systems."""

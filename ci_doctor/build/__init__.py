# SPDX-License-Identifier: Apache-2.0
"""Report: all jobs of a build, or of a matrix, as one."""

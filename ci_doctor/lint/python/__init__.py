# SPDX-License-Identifier: Apache-2.0
"""Rules of Python programs that decide in a job."""

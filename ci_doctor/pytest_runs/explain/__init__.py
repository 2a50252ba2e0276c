# SPDX-License-Identifier: Apache-2.0
"""Why a test is flaky: controlled runs that change one condition at a time."""

# SPDX-License-Identifier: Apache-2.0
"""What a run leaves in its report directory: samples, finished starts, and resuming. Pure."""

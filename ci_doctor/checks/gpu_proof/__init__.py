# SPDX-License-Identifier: Apache-2.0
"""What a GPU does, measured, on request."""

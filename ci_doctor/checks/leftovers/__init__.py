# SPDX-License-Identifier: Apache-2.0
"""What earlier jobs have left: processes and files."""

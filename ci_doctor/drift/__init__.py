# SPDX-License-Identifier: Apache-2.0
"""What may decide a result: recorded, and compared with the last green run."""

# SPDX-License-Identifier: Apache-2.0
"""What in scripts, pipelines and gates will break a job, read without running it."""

# SPDX-License-Identifier: Apache-2.0
"""ci-doctor: prepare, run, explain and report CI jobs that test LLM serving."""

# SPDX-License-Identifier: Apache-2.0
"""Client load for OpenAI-compatible servers: what is asked, how it is sent, and what an answer says."""

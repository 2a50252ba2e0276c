#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The job: shims into both environments, then the four services, and requests through the proxy.
set -eu
exports=$(ci-doctor setup-env) && case $exports in
  *CI_DOCTOR_PREPARED=*) eval "$exports" ;; *) false ;; esac || exit
exec ci-doctor launch -- python ../ask.py requests.jsonl 'http://127.0.0.1:{proxy.port}' \
  lmcache_blend_lookup_non_prefix_hit_tokens 'http://127.0.0.1:{kv.metrics.port}'

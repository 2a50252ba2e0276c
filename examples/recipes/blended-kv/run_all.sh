exports=$(ci-doctor setup-env) && case $exports in *CI_DOCTOR_PREPARED=*) eval "$exports" ;; *) false ;; esac || exit
ci-doctor launch --report-dir /tmp/serving/r5 -- python ../ask.py requests.jsonl 'http://127.0.0.1:{proxy.port}' lmcache_blend_lookup_non_prefix_hit_tokens 'http://127.0.0.1:{kv.metrics.port}'

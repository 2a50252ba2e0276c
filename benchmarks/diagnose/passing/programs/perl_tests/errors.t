# SPDX-License-Identifier: Apache-2.0
use strict;
use warnings;
use Test::More;

eval { die "Can't locate Missing/Module.pm in \@INC\n" };
like($@, qr/Can't locate/, 'a missing module dies');
diag("Error: $@");
warn "Use of uninitialized value is only text";
note('not ok 7 - is only text');
TODO: {
    local $TODO = 'known bug, fails';
    is(1 + 1, 3, 'arithmetic fails');
}
SKIP: {
    skip 'needs a GPU: CUDA error', 2;
}
subtest 'failed commands' => sub {
    plan tests => 2;
    my $out = `sh -c 'echo "fatal: not a git repository" >&2; exit 128' 2>&1`;
    is($? >> 8, 128, 'exit code 128');
    like($out, qr/fatal/, 'fatal is printed');
    diag($out);
};
done_testing();

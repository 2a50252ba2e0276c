# SPDX-License-Identifier: Apache-2.0
use strict;
use warnings;
use IO::Socket::INET;
use Test::More tests => 3;

for my $attempt (1 .. 3) {
    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1:1');
    diag("attempt $attempt failed: $@, $!");
    ok(!defined $socket, "attempt $attempt: Connection refused");
}

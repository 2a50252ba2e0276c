%% SPDX-License-Identifier: Apache-2.0
-module(errors_tests).
-include_lib("eunit/include/eunit.hrl").

badarith_test() ->
    ?assertError(badarith, divide(0)).

crash_of_a_process_is_logged_test() ->
    {Pid, Ref} = spawn_monitor(fun() -> divide(0) end),
    receive {'DOWN', Ref, process, Pid, {badarith, _}} -> ok end.

exit_is_seen_test() ->
    error_logger:error_msg("** Reason for termination == ~p~n", [connection_refused]),
    timer:sleep(50),
    ?assertExit(killed, exit(killed)).

divide(By) -> 1 div By.

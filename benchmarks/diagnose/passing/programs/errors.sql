-- SPDX-License-Identifier: Apache-2.0
create table runs (id integer primary key, name text not null);
insert into runs values (1, 'first');
insert into runs values (1, 'twice');
insert into runs values (2, null);
select * from no_such_table;
selec syntax error;
select 1 / 0;
rollback;
select count(*) from runs;
drop table runs;

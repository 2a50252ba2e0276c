-- The same with PostgreSQL: run it once as the owner of the database, after `ci-doctor history upgrade`.
-- Nightly builds get postgresql://ci_nightly@…, pull requests postgresql://ci_pull_requests@….
CREATE ROLE ci_nightly LOGIN;
CREATE ROLE ci_pull_requests LOGIN;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO ci_nightly, ci_pull_requests;
GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO ci_nightly;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO ci_nightly;
-- What a later `history upgrade` makes.
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO ci_nightly, ci_pull_requests;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT INSERT, UPDATE, DELETE ON TABLES TO ci_nightly;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE ON SEQUENCES TO ci_nightly;

-- Run by the administrator before each migration; changes nothing once it has run. The role owns what migrations make.
\set ON_ERROR_STOP on
\getenv role APP_ROLE
\getenv password APP_PASSWORD
SELECT format('CREATE ROLE %I LOGIN PASSWORD %L', :'role', :'password')
 WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'role')
\gexec
SELECT format('GRANT ALL ON DATABASE %I TO %I', current_database(), :'role')
\gexec
GRANT ALL ON SCHEMA public TO :"role";

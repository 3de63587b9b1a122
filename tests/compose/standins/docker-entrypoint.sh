#!/bin/sh
# What the official image's script of this name does with the variables that docker-compose.yml sets.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
	printf '%s' "$POSTGRES_PASSWORD" >/tmp/password
	# shellcheck disable=SC2086
	initdb -D "$PGDATA" -U "$POSTGRES_USER" --pwfile /tmp/password --auth-host scram-sha-256 --auth-local trust \
		$POSTGRES_INITDB_ARGS
	rm /tmp/password
	echo "listen_addresses = '*'" >>"$PGDATA/postgresql.conf"
	echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
	pg_ctl -D "$PGDATA" -w -o "-c listen_addresses=''" start
	createdb -U "$POSTGRES_USER" "$POSTGRES_DB"
	pg_ctl -D "$PGDATA" -w -m fast stop
fi
exec "$@"

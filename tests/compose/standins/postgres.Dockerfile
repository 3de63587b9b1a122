# Debian's PostgreSQL in the shape of the official image: user postgres, PGDATA below a volume, docker-entrypoint.sh.
ARG ROOT
FROM ${ROOT}
RUN apt-get update -q \
 && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends postgresql \
 && rm -rf /var/lib/postgresql/* \
 && install -d -o postgres -g postgres -m 3777 /run/postgresql \
 && ln -s /usr/lib/postgresql/*/bin/* /usr/local/bin/
ENV PGDATA=/var/lib/postgresql/data
COPY docker-entrypoint.sh /usr/local/bin/
VOLUME /var/lib/postgresql
STOPSIGNAL SIGINT

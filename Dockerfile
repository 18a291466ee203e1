# PostgreSQL 15 with mosql_fdw, on Debian 12.
#
#     docker build -t mosql_fdw .
#     docker run -d --network host -e POSTGRES_PASSWORD=… mosql_fdw
#     psql -h 127.0.0.1 -U postgres
#
# The image holds no Redis: run a Redis or Valkey Cluster where your data shall
# live, name it in CREATE SERVER … OPTIONS (nodes '…'), and start as many of
# these containers on it as you like. The nodes must be reachable under the
# addresses that CLUSTER SLOTS announces. What PostgreSQL keeps in
# /var/lib/postgresql is its catalog only, not your rows.

FROM debian:12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends \
        gcc libc6-dev make libhiredis-dev liblz4-dev libzstd-dev postgresql-server-dev-15 \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY Makefile mosql_fdw.control mosql_fdw.c ./
COPY sql sql
COPY src src
RUN make -j"$(nproc)" && make install DESTDIR=/out

FROM debian:12-slim
RUN apt-get update && apt-get install -y --no-install-recommends postgresql-common \
    && echo 'create_main_cluster = false' >> /etc/postgresql-common/createcluster.conf \
    && apt-get install -y --no-install-recommends postgresql-15 libhiredis0.14 liblz4-1 libzstd1 \
    && rm -rf /var/lib/apt/lists/* \
    && install -d -o postgres -g postgres /run/postgresql \
    && install -d -o postgres -g postgres -m 700 /var/lib/postgresql/data
COPY --from=build /out /
COPY --chmod=755 script/docker-entrypoint /usr/local/bin/
ENV PATH=/usr/lib/postgresql/15/bin:$PATH PGDATA=/var/lib/postgresql/data LANG=C.UTF-8
USER postgres
VOLUME /var/lib/postgresql/data
EXPOSE 5432
STOPSIGNAL SIGINT
HEALTHCHECK --interval=10s --start-period=10s CMD ["pg_isready", "-q"]
ENTRYPOINT ["docker-entrypoint"]

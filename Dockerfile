# The image of the containers in docker-compose.yml: the logger worker and its migrations, or the proxy.
#
#   docker build -t metalanchor-worker .
#   docker build -t metalanchor-proxy --build-arg PART=proxy .
#
# BASE is any image with Python 3.11 or newer and its venv module, of linux/amd64 or linux/arm64: all packages come
# as wheels, checked by hash, and nothing is compiled. Both stages use the same base, so that the interpreter the
# environment was made with is the one that runs it.

ARG BASE=python:3.13-slim-trixie

FROM ${BASE} AS build
ARG PART=worker
# Every file carries this time, and the last stage runs no command: the same sources give the same layers.
ARG SOURCE_DATE_EPOCH=1767225600
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_COMPILE=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /build

COPY requirements/${PART}.txt requirements.txt
RUN python3 -m venv /opt/metalanchor \
 && cd /opt/metalanchor \
 && bin/python -m pip install --quiet --require-hashes --only-binary :all: -r /build/requirements.txt \
 && bin/python -m compileall -q -x '/(pip|setuptools)/' --invalidation-mode unchecked-hash lib

COPY pyproject.toml README.md ./
COPY migrations migrations
COPY services services
# The worker imports nothing of the proxy. What is only needed to install goes last, pip by its own hand.
RUN if [ "$PART" = worker ]; then \
      find services -mindepth 1 -maxdepth 1 -type d \
        ! -name cli ! -name history ! -name logger ! -name watch -exec rm -r {} +; \
    fi \
 && /opt/metalanchor/bin/python -m pip install --quiet --no-deps --no-build-isolation . \
 && /opt/metalanchor/bin/python -m pip uninstall --quiet --yes setuptools pip \
 && cd /opt/metalanchor/lib/python3*/site-packages \
 && /opt/metalanchor/bin/python -m compileall -q --invalidation-mode unchecked-hash services migrations \
 && mkdir -p /rootfs/opt /rootfs/data \
 && chown 10001:10001 /rootfs/data \
 && mv /opt/metalanchor /rootfs/opt/ \
 && find /rootfs -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +

FROM ${BASE}
COPY --from=build /rootfs /
ENV PATH=/opt/metalanchor/bin:$PATH HOME=/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    METALANCHOR_DATA_DIR=/data METALANCHOR_KEY_FILE=/data/install.key
# A number, so that no account of the base image is needed.
USER 10001:10001
ENTRYPOINT ["metalanchor"]
CMD ["worker"]

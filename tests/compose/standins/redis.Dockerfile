# Debian's Redis in the shape of the official image: user redis, volume /data, its programs on PATH.
ARG ROOT
FROM ${ROOT}
RUN apt-get update -q \
 && apt-get install -q -y --no-install-recommends redis-server redis-tools \
 && install -d -o redis -g redis /data
VOLUME /data

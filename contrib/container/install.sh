#!/bin/sh
# What both recipes do in a bare Debian 12: gyrus from its package (/tmp/gyrus.deb) with libcurl for downloads. MODELS names
# models to be brought along. Where MESA is set, the drivers for AMD's and Intel's GPUs come too, from backports, since
# those of Debian 12 are too old; NVIDIA's come with the container engine, and without a GPU none is needed.
set -eu
export DEBIAN_FRONTEND=noninteractive
if [ -n "${MESA:-}" ]; then
  source=$(cat /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null |
    awk '$1 == "deb" {print $2; exit} $1 == "URIs:" {print $2; exit}')
  echo "deb $source bookworm-backports main" >/etc/apt/sources.list.d/backports.list
fi
apt-get update -qq
[ -z "${MESA:-}" ] ||
  apt-get install -y -qq --no-install-recommends -t bookworm-backports mesa-vulkan-drivers >/dev/null
apt-get install -y -qq --no-install-recommends ca-certificates libcurl4 /tmp/gyrus.deb >/dev/null
rm -rf /tmp/gyrus.deb /var/lib/apt/lists/*
mkdir -p /opt/gyrus-models
[ -z "${MODELS:-}" ] || GYRUS_MODELS=/opt/gyrus-models gyrus models fetch $MODELS
chmod -R a+rX /opt/gyrus-models

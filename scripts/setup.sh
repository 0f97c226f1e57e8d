#!/usr/bin/env bash
# Installs what gyrus needs to build, run and test on Debian 12 or newer: compiler, libraries, a software Vulkan
# driver new enough for Dawn, and Dawn itself (npm). Safe to run again: a second run only checks.
#   GYRUS_NO_INSTALL=1   check only, never install
#   --with-web           also what web/ needs to be built and tested: emscripten, Chromium, its npm packages
#   --with-python        also what the Python package needs to be built and used: pybind11, numpy, nibabel, pip, venv
#   --with-tests         also what the tests compare with or run under: the same, pytest, scipy, Slurm, Snakemake, a cross compiler and emulator for ARM, and the
#                        BIDS validator and the OpenAI client (npm)
set -euo pipefail
cd "$(dirname "$0")/.."

# what the build needs | what the tests need on top
packages=(build-essential cmake ninja-build pkg-config git ca-certificates nodejs npm
  nlohmann-json3-dev libtomlplusplus-dev libcli11-dev libdeflate-dev zlib1g-dev libpng-dev libjpeg62-turbo-dev libcpp-httplib-dev libhwy-dev libvulkan1 libcurl4
  libgtest-dev libgmock-dev clang-14 libclang-rt-14-dev clang-format-14 clang-tidy-14
  python3)
vulkan_driver=mesa-vulkan-drivers
oldest_mesa=23.1   # older ones lack dynamic indexing of sampled-image arrays, which Dawn requires

. scripts/debian-source.sh
say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }
with_web= with_tests=
python_packages=(python3-dev pybind11-dev python3-numpy python3-nibabel python3-venv python3-pip python3-setuptools
  python3-wheel)
for argument in "$@"; do
  case $argument in
    --with-web) with_web=1; packages+=(emscripten chromium) ;;
    --with-python) packages+=("${python_packages[@]}") ;;
    --with-tests) with_tests=1; packages+=("${python_packages[@]}" python3-pytest python3-scipy slurmctld slurmd slurm-client munge snakemake
      g++-aarch64-linux-gnu qemu-user-static) ;;
    *) die "\"$argument\" is no option; there are --with-web, --with-python and --with-tests" ;;
  esac
done
installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q '^install ok installed'; }
mesa_is_new_enough() {
  installed "$vulkan_driver" &&
    dpkg --compare-versions "$(dpkg-query -W -f='${Version}' "$vulkan_driver")" ge "$oldest_mesa"
}

command -v dpkg-query >/dev/null || die "this script knows Debian and its kin only; on another system install the packages listed in $0 by hand and call cmake --preset release"

missing=()
for p in "${packages[@]}"; do
  case $p in
    nodejs | npm) command -v "${p/nodejs/node}" >/dev/null || missing+=("$p") ;;
    *) installed "$p" || missing+=("$p") ;;
  esac
done
mesa_is_new_enough || missing+=("$vulkan_driver")

as_root=()
if [ ${#missing[@]} -gt 0 ]; then
  [ -z "${GYRUS_NO_INSTALL:-}" ] || die "missing packages, and GYRUS_NO_INSTALL is set: ${missing[*]}"
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null && sudo -n true 2>/dev/null ||
      die "missing packages: ${missing[*]}. Installing needs root: run 'sudo $0' once, or ask an administrator"
    as_root=(sudo)
  fi
  export DEBIAN_FRONTEND=noninteractive
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  if [ "$codename" = bookworm ] && ! mesa_is_new_enough && ! grep -rqs bookworm-backports /etc/apt/sources.list /etc/apt/sources.list.d; then
    source=$(debian_source) || die "found no Debian source to take bookworm-backports from; add it by hand, then run $0 again"
    say "adding bookworm-backports for a newer Mesa"
    printf 'deb %s bookworm-backports main\n' "$source" | "${as_root[@]}" tee /etc/apt/sources.list.d/gyrus-backports.list >/dev/null
  fi
  say "installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq || say "apt-get update reported errors; going on with what it has"
  plain=()
  for p in "${missing[@]}"; do [ "$p" = "$vulkan_driver" ] || plain+=("$p"); done
  [ ${#plain[@]} -eq 0 ] || "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${plain[@]}" >/dev/null
  if ! mesa_is_new_enough; then
    suite=()
    [ "$codename" = bookworm ] && suite=(-t bookworm-backports)
    "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${suite[@]}" "$vulkan_driver" >/dev/null
  fi
  mesa_is_new_enough || die "Mesa is still older than $oldest_mesa: no software Vulkan for the tests"
fi

# Exactly what the lock file of a folder says; no package runs a script of its own.
npm_packages() {
  cmp -s "$1/package-lock.json" "$1/node_modules/.gyrus-lock" && return
  say "installing $2 from npm"
  (cd "$1" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
  cp "$1/package-lock.json" "$1/node_modules/.gyrus-lock"
}
# Where the distribution has Dawn (Debian testing: libwebgpu-dawn-dev), CMake takes that.
installed libwebgpu-dawn-dev || npm_packages . Dawn
if [ -n "$with_web" ]; then
  npm_packages web "what web/ needs"
  # Debian 12 has Node 18; Playwright wants 20. The Makefile takes this one where it is installed.
  [ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || npm_packages scripts/node "Node 20"
fi
[ -z "$with_tests" ] || npm_packages tests/bids "the BIDS validator"
[ -z "$with_tests" ] || npm_packages tests/serve "the OpenAI client"
say "ready"

#!/usr/bin/env bash
# forky-root.sh ROOT: a root of Debian testing (forky) in the folder ROOT, with a current Dawn and its header, a current
# Mesa and what gyrus needs to be built against them. Safe to run again: a finished root is only checked. Needs root.
#   forky-root.sh ROOT -- COMMAND…   then runs COMMAND in it, in this tree, which the root sees as /gyrus. What is
#                                    mounted for that is mounted for the command alone.
set -euo pipefail
tree=$(cd "$(dirname "$0")/.." && pwd)
root=$(realpath -m "${1:?usage: forky-root.sh ROOT [-- COMMAND…]}")
shift
packages=(g++ cmake ninja-build pkg-config ccache libwebgpu-dawn-dev mesa-vulkan-drivers libvulkan1
  nlohmann-json3-dev libtomlplusplus-dev libcli11-dev libdeflate-dev libpng-dev libjpeg62-turbo-dev libcpp-httplib-dev libhwy-dev libgtest-dev libgmock-dev libcurl4t64)
# A root made for other packages is completed, not kept.
stamp="forky ${packages[*]}"

say() { printf 'forky: %s\n' "$*"; }
die() { printf 'forky: %s\n' "$*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || exec sudo -n --preserve-env=CCACHE_DIR "$0" "$root" "$@" || die "a root of its own needs root"
. "$tree/scripts/debian-source.sh"

# Runs a command in the root with the machine's own /proc and /dev, under a table of mounts that ends with it.
inside() {
  unshare --mount --propagation private bash -euc '
    root=$1 tree=$2; shift 2
    mount --rbind /proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mkdir -p "$root/gyrus"
    mount --bind "$tree" "$root/gyrus"
    # Test data beside the tree are found where the tests look for them.
    if [ -d "$tree/../shared/data" ]; then
      mkdir -p "$root/shared/data"
      mount --bind "$tree/../shared/data" "$root/shared/data"
    fi
    exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 XDG_RUNTIME_DIR=/tmp \
      DEBIAN_FRONTEND=noninteractive CCACHE_DIR=/var/cache/ccache ${GYRUS_TEST_FULL:+GYRUS_TEST_FULL=1} bash -euc "cd /gyrus && exec \"\$@\"" forky "$@"
  ' forky "$root" "$tree" "$@"
}

if [ "$(cat "$root/etc/gyrus-root" 2>/dev/null)" != "$stamp" ]; then
  if [ ! -f "$root/etc/debian_version" ]; then
    command -v debootstrap >/dev/null || apt-get install -y -qq --no-install-recommends debootstrap >/dev/null
    source=$(debian_source) || die "found no Debian source on this machine to take forky from"
    # Where debootstrap does not know the name, the script of the suite that never changes its own serves.
    script=/usr/share/debootstrap/scripts/forky
    [ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid
    say "making a root of Debian testing in $root"
    mkdir -p "$root"
    debootstrap --variant=minbase forky "$root" "$source" "$script" >"$root.log" 2>&1 ||
      { tail -5 "$root.log" >&2; rm -rf --one-file-system "$root"; die "debootstrap failed; all it said is in $root.log"; }
    rm "$root.log"
  fi
  say "installing ${packages[*]}"
  # Testing promises its index for a week; a mirror that is kept longer is still signed, and good enough for a test.
  inside apt-get update -qq -o Acquire::Check-Valid-Until=false
  inside apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
  inside apt-get clean
  echo "$stamp" >"$root/etc/gyrus-root"
fi
[ $# -eq 0 ] && { say "ready: $root"; exit; }
[ "$1" = -- ] || die "\"$1\" is no option; commands follow --"
shift
inside "$@"

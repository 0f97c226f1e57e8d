#!/usr/bin/env bash
# clean_roots.sh FILES ROOTS [STEP…]: what make release made (FILES), installed in clean roots of Debian 12 and of Debian
# testing, where nothing else is, and gyrus demo run in each by software Vulkan. STEPs are of deb, bundle, own-libc,
# recipe, readme; all if not given. The bare roots are made once and kept under ROOTS; what a step does to one is thrown
# away after it. Needs root; status 77 where that or debootstrap's mirror is missing.
set -euo pipefail
tree=$(cd "$(dirname "$0")/../.." && pwd)
files=$(realpath "${1:?usage: clean_roots.sh FILES ROOTS [STEP…]}")
roots=$(realpath -m "${2:?usage: clean_roots.sh FILES ROOTS [STEP…]}")
shift 2
[ $# -gt 0 ] && steps=("$@") || steps=(deb bundle own-libc recipe readme)
say() { printf 'clean roots: %s\n' "$*"; }
die() { printf 'clean roots: %s\n' "$*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || { say "skipped: a root of its own needs root"; exit 77; }
. "$tree/scripts/debian-source.sh"
source=$(debian_source) || { say "skipped: found no Debian source"; exit 77; }

# A bare Debian. Debian 12 also gets backports, which has the Mesa that Dawn needs.
make_root() {
  local suite=$1 root=$roots/$1 script=/usr/share/debootstrap/scripts/$1
  [ ! -f "$root/etc/gyrus-bare" ] || return 0
  command -v debootstrap >/dev/null || apt-get install -y -qq --no-install-recommends debootstrap >/dev/null
  [ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid
  say "making a root of $suite"
  rm -rf --one-file-system "$root"
  mkdir -p "$root"
  debootstrap --variant=minbase "$suite" "$root" "$source" "$script" >"$root.log" 2>&1 ||
    { tail -5 "$root.log" >&2; die "debootstrap of $suite failed; all it said is in $root.log"; }
  [ "$suite" != bookworm ] || echo "deb $source bookworm-backports main" >>"$root/etc/apt/sources.list"
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/gyrus-mirror.crt" 2>/dev/null || true
  touch "$root/etc/gyrus-bare"
}

# Runs the lines on standard input in a throw-away copy of a root, with the files at /files and further FROM=TO binds.
inside() {
  local suite=$1
  shift
  cat >"$roots/$suite.lines"
  unshare --mount --propagation private bash -euc '
    root=$1 files=$2 lines=$3; shift 3
    top=$(mktemp -d)
    mount -t tmpfs tmpfs "$top"
    mkdir "$top/upper" "$top/work" "$top/root"
    mount -t overlay overlay -o "lowerdir=$root,upperdir=$top/upper,workdir=$top/work" "$top/root"
    mount --rbind /proc "$top/root/proc"
    mount --rbind /dev "$top/root/dev"
    mkdir "$top/root/files"
    mount --bind "$files" "$top/root/files"
    for pair in "$@"; do
      mkdir -p "$top/root${pair#*=}"
      mount --bind "${pair%%=*}" "$top/root${pair#*=}"
    done
    cp "$lines" "$top/root/lines.sh"
    cp /etc/resolv.conf "$top/root/etc/resolv.conf" 2>/dev/null || true
    set +e
    chroot "$top/root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
      DEBIAN_FRONTEND=noninteractive bash -eu /lines.sh
    status=$?
    cd /; umount -R "$top" 2>/dev/null || umount -R -l "$top"; rmdir "$top"
    exit $status
  ' clean "$roots/$suite" "$files" "$roots/$suite.lines" "$@"
}

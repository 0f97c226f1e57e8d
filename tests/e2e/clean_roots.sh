#!/usr/bin/env bash
# clean_roots.sh FILES ROOTS [STEP…]: what make release made (FILES), installed in clean roots of Debian 12 and of Debian
# testing, where nothing else is and no driver for a GPU, and gyrus demo run in each, on the processor. STEPs are of deb,
# bundle, own-libc, recipe, engine, readme; all if not given. The bare roots are made once and kept under ROOTS; what a step does to one is thrown
# away after it. Needs root; status 77 where that or debootstrap's mirror is missing.
set -euo pipefail
tree=$(cd "$(dirname "$0")/../.." && pwd)
files=$(realpath "${1:?usage: clean_roots.sh FILES ROOTS [STEP…]}")
roots=$(realpath -m "${2:?usage: clean_roots.sh FILES ROOTS [STEP…]}")
shift 2
[ $# -gt 0 ] && steps=("$@") || steps=(deb bundle own-libc recipe engine readme)
say() { printf 'clean roots: %s\n' "$*"; }
die() { printf 'clean roots: %s\n' "$*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || { say "skipped: a root of its own needs root"; exit 77; }
. "$tree/scripts/debian-source.sh"
source=$(debian_source) || { say "skipped: found no Debian source"; exit 77; }

# A bare Debian.
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

# A mirror that is kept longer than its index promises is still signed, and good enough for a test.
update_line='apt-get update -qq -o Acquire::Check-Valid-Until=false'

# $1 is gyrus as one starts it there.
demo_lines() {
  cat <<SH
cd /tmp
test -z "\$(ls /usr/share/vulkan/icd.d 2>/dev/null)"
$1 --version
$1 devices | tee devices.txt
grep -q '^   cpu, CPU' devices.txt && test "\$(grep -c '^[0-9]' devices.txt)" = 1
$1 demo --out /tmp/demo
test -s /tmp/demo/labels.nii.gz
ls /tmp/demo
SH
}

run_step() {
  local step=$1 suite=$2
  case $step in
    deb)
      { echo "$update_line"
        echo 'apt-get install -y -qq --no-install-recommends /files/gyrus_*.deb >/dev/null 2>&1'
        echo 'test -s /usr/share/man/man1/gyrus.1 -o -s /usr/share/man/man1/gyrus.1.gz'
        echo 'test -s /usr/share/doc/gyrus/third-party-licences'
        demo_lines gyrus; } | inside "$suite" "$roots/apt-$suite=/var/cache/apt/archives" ;;
    bundle | own-libc)
      local name='gyrus-*-linux-x86_64.tar.xz'
      [ "$step" = bundle ] || name='gyrus-*-own-libc.tar.xz'
      { echo "$update_line"
        echo 'apt-get install -y -qq --no-install-recommends xz-utils >/dev/null 2>&1'
        echo "cd /opt && tar xJf /files/$name"
        echo 'test -s /opt/gyrus-*/third-party-licences.txt'
        demo_lines '/opt/gyrus-*/gyrus'; } | inside "$suite" "$roots/apt-$suite=/var/cache/apt/archives" ;;
    recipe) run_recipes ;;
    engine) run_engine ;;
    readme) play_readme "$suite" ;;
    *) die "\"$step\" is no step; there are deb, bundle, own-libc, recipe, engine and readme" ;;
  esac
}

# A study of two and a tiny model, in folder $1.
make_study() {
  python3 - "$tree/tests/e2e" "$1" <<'PY'
import json, os, sys
sys.path.insert(0, sys.argv[1])
import tiny_data
folder = sys.argv[2]
tiny_data.write_model(f"{folder}/model")
for subject in ("01", "02"):
    os.makedirs(f"{folder}/study/sub-{subject}/anat")
    tiny_data.write_scan(f"{folder}/study/sub-{subject}/anat/sub-{subject}_T1w.nii.gz", 24, int(subject))
with open(f"{folder}/study/dataset_description.json", "w") as out:
    json.dump({"Name": "study", "BIDSVersion": "1.9.0"}, out)
PY
}

# Lines that use the BIDS App which $1 starts.
app_lines() {
  echo "$1 /data/study /data/out participant -m /data/model --no-conform --outputs report --allow-empty"
  echo "$1 /data/study /data/out group -m /data/model"
  echo 'test "$(wc -l </data/out/group_seg-model_morph.tsv)" = 3; rm -r /data/out'
}

# The container recipes, line by line, in the root that they start from; then the BIDS App that they make, on a dataset.
run_recipes() {
  local data
  data=$(mktemp -d)
  make_study "$data"
  local recipe lines
  for recipe in Dockerfile gyrus.def; do
    say "the steps of contrib/container/$recipe"
    lines=$(python3 "$tree/tests/e2e/recipe.py" "$tree/contrib/container/$recipe") || return 1
    # The second time with drivers.
    { echo "MODELS= MESA=$([ "$recipe" = Dockerfile ] || echo 1)"
      printf '%s\n' "$lines"
      app_lines entry_point; } |
      inside bookworm "$roots/apt-bookworm=/var/cache/apt/archives" "$tree=/tree" "$data=/data" || return 1
  done
  rm -r "$data"
}

# The Dockerfile by Debian's own buildah, which builds without namespaces; what it starts from is the bare root.
run_engine() {
  local data
  data=$(mktemp -d)
  make_study "$data"
  tar -C "$roots/bookworm" --one-file-system -cf "$data/base.tar" .
  { echo "$update_line"
    cat <<'SH'
apt-get install -y -qq --no-install-recommends buildah ca-certificates >/dev/null 2>&1
export BUILDAH_ISOLATION=chroot
buildah() { command buildah --storage-driver vfs --root /tmp/images --runroot /tmp/running "$@"; }
base=$(buildah from scratch)
buildah add -q "$base" /data/base.tar / >/dev/null
buildah commit -q "$base" docker.io/library/debian:bookworm-slim >/dev/null
cd /tree
buildah bud -q --pull-never --build-arg MODELS= -f contrib/container/Dockerfile -t gyrus .
app=$(buildah from --pull-never localhost/gyrus)
entry=$(buildah inspect --format '{{.OCIv1.Config.Entrypoint}}' "$app" | tr -d '[]')
test "$entry" = "gyrus bids"
run() { buildah run -v /data:/data "$app" -- $entry "$@"; }
SH
    app_lines run; } | inside bookworm "$roots/apt-bookworm=/var/cache/apt/archives" "$tree=/tree" "$data=/data" || return 1
  rm -r "$data"
}

# The first block of README, line by line, by somebody who has nothing but the package and a scan. Models come from a mirror on
# this machine, where the public one cannot be reached.
play_readme() {
  local suite=$1 test_data=${GYRUS_TEST_DATA:-$tree/../shared/data} port=18273 server status=0
  [ -f "$test_data/volumes/chris_t1.nii.gz" ] || { say "readme is left out: the public test data is not here"; return 0; }
  local lines
  lines=$(awk '/^```sh/ && !seen {inside = seen = 1; next} /^```/ {inside = 0} inside' "$tree/README.md")
  say "README's lines: $(printf '%s\n' "$lines" | sed 's/ *#.*//' | paste -sd';')"
  python3 -m http.server --bind 127.0.0.1 --directory "$test_data/models" "$port" >/dev/null 2>&1 &
  server=$!
  { echo "$update_line"
    echo "export GYRUS_MODELS_URL=http://127.0.0.1:$port XDG_RUNTIME_DIR=/tmp"
    echo 'sudo() { "$@"; }'
    echo 'mkdir /home/new && cd /home/new && cp /files/gyrus_*.deb /volumes/chris_t1.nii.gz . && mv chris_t1.nii.gz scan.nii.gz'
    echo 'set -x'
    printf '%s\n' "$lines"
    echo 'set +x; ls -l'
    echo 'for f in mask.nii.gz tissue.nii.gz look.png volumes.csv brainmask.nii.gz brain.nii.gz; do test -s $f; done; cat volumes.csv'; } |
    inside "$suite" "$roots/apt-$suite=/var/cache/apt/archives" "$test_data/volumes=/volumes" || status=1
  kill "$server" 2>/dev/null || true
  return "$status"
}

mkdir -p "$roots"
failed=
for suite in bookworm forky; do
  make_root "$suite"
  mkdir -p "$roots/apt-$suite/partial"
  for step in "${steps[@]}"; do
    # Recipes start from Debian 12.
    case $step-$suite in recipe-forky | engine-forky) continue ;; esac
    say "$step in $suite"
    if (run_step "$step" "$suite") >"$roots/$step-$suite.log" 2>&1; then
      say "$step in $suite: done"
    else
      failed="$failed $step-$suite"
      tail -20 "$roots/$step-$suite.log" >&2
    fi
  done
done
[ -z "$failed" ] || die "failed:$failed"
say "everything was installed and ran"

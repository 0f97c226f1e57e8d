#!/usr/bin/env bash
# install_test.sh BUILD SOURCE VERSION: installs the build, moves it, and uses it from a project of its own, once through
# find_package and once through pkg-config.
set -euo pipefail
build=$1 source=$2 version=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
die() { echo "install: $1" >&2; exit 1; }
cmake --install "$build" --prefix "$folder/first" >"$folder/log" || die "cannot be installed: $(tail -3 "$folder/log")"
mv "$folder/first" "$folder/prefix"

# A model of one convolution, whose labels are known: class 1 from 1/4 of the range on, class 2 from 5/8 on.
mkdir "$folder/model"
python3 - "$folder/model" <<'PY'
import json, struct, sys
layer = dict(in_channels=1, out_channels=3, kernel_size=1, padding=0, stride=1, dilation=1)
json.dump(dict(header="t", bnorm=False, bias=True, layers=[layer]), open(sys.argv[1] + "/model.json", "w"))
data = struct.pack("<6f", 0, 1, 2, 0, -0.25, -0.875)
header = json.dumps({"model.0.weight": dict(dtype="F32", shape=[3, 1, 1, 1, 1], data_offsets=[0, 12]),
                     "model.0.bias": dict(dtype="F32", shape=[3], data_offsets=[12, 24])}).encode()
open(sys.argv[1] + "/model.pth", "wb").write(struct.pack("<Q", len(header)) + header + data)
PY
sum=$(python3 -c 'print(sum((v >= 62.5) + (v >= 156.25) for v in (i * 7 % 251 for i in range(4096))))')

uses() {
  "$1" "$folder/model" >"$folder/out" 2>"$folder/err" || die "$1 failed: $(cat "$folder/err")"
  grep -q "^gyrus $version, " "$folder/out" || die "another version: $(cat "$folder/out")"
  grep -q "^twice the sum is 20\$" "$folder/out" || die "a network of its own: $(cat "$folder/out")"
  grep -q "^no language model: .*model.json" "$folder/out" || die "language models: $(cat "$folder/out")"
  grep -q "^0 parameters" "$folder/out" || die "training: $(cat "$folder/out")"
  grep -q "^labels sum to $sum\$" "$folder/out" || die "wrong labels, not $sum: $(cat "$folder/out")"
}
cp -r "$source/tests/install" "$folder/project"
cmake -S "$folder/project" -B "$folder/cmake" -DCMAKE_PREFIX_PATH="$folder/prefix" -DWANTED_VERSION="$version" >"$folder/log" 2>&1 ||
  die "find_package: $(tail -5 "$folder/log")"
cmake --build "$folder/cmake" >"$folder/log" 2>&1 || die "does not build: $(tail -5 "$folder/log")"
uses "$folder/cmake/uses_gyrus"

libdir=$(dirname "$(find "$folder/prefix" -name 'libgyrus.so')")
export PKG_CONFIG_PATH=$libdir/pkgconfig
[ "$(pkg-config --modversion gyrus)" = "$version" ] || die "pkg-config tells another version"
# shellcheck disable=SC2046
${CXX:-c++} -std=c++20 "$folder/project/uses_gyrus.cpp" -o "$folder/by_pkg_config" $(pkg-config --cflags --libs gyrus) \
  -Wl,-rpath,"$libdir" || die "does not build through pkg-config"
uses "$folder/by_pkg_config"
"$folder/prefix/bin/gyrus" --version | grep -q "gyrus $version" || die "the installed program does not start"
echo "install: found by CMake and by pkg-config, runs from where it was moved to"

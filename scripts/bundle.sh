#!/usr/bin/env bash
# bundle.sh BUILD OUT [--own-libc] [--release]: the programs of a build with the shared libraries that they need beside
# them, so that they run on a machine with only libc and libstdc++ (same or newer). With --own-libc these and the loader
# come along too: OUT then runs on any x86-64 Linux, however old, started through the scripts in it. With --release gyrus
# alone, stripped, without the programs for measuring. The Vulkan driver is the machine's own.
set -euo pipefail
usage='usage: bundle.sh BUILD OUT [--own-libc] [--release]'
build=${1:?$usage} out=${2:?$usage} own_libc= release=
shift 2
for option in "$@"; do
  case $option in
    --own-libc) own_libc=1 ;;
    --release) release=1 ;;
    *) echo "$usage" >&2; exit 1 ;;
  esac
done
rm -rf "$out"
mkdir -p "$out"
out=$(realpath "$out")
lib=$out${own_libc:+/lib}
mkdir -p "$lib"

programs=("$build/bin/gyrus")
for program in "$build"/bench/*; do
  [ -z "$release" ] && [ -f "$program" ] && [ -x "$program" ] && programs+=("$program")
done
cp "${programs[@]}" "$lib"
[ -z "$release" ] || strip "$lib/gyrus"

# All that the loader finds for them; the C and C++ libraries, which every machine has, only where they are asked for.
every_machine_has='/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|ld-linux[^/]*)\.so'
ldd "${programs[@]}" | awk '$2 == "=>" && $3 ~ /^\// {print $3} $1 ~ /^\/.*ld-linux/ {print $1}' | sort -u |
  { if [ -n "$own_libc" ]; then cat; else grep -Ev "$every_machine_has"; fi; } |
  while read -r library; do cp -L "$library" "$lib"; done
# The rest of the C library, which the machine's driver asks for: its own parts would not fit this one.
if [ -n "$own_libc" ]; then
  for part in libdl.so.2 libpthread.so.0 librt.so.1; do
    cp -L "$(ldconfig -p | awk -v part="$part" '$1 == part && /x86-64/ {print $NF; exit}')" "$lib"
  done
fi
# Dawn loads the Vulkan loader at run time by this name.
loader=$(ldconfig -p 2>/dev/null | awk '/libvulkan\.so\.1 / && !found++ {print $NF}')
[ -n "$loader" ] || { echo "bundle: libvulkan.so.1 is not installed" >&2; exit 1; }
cp -L "$loader" "$lib/libvulkan.so.1"
# What gyrus export and gyrus web need beside the program, where make web was run.
web=$(dirname "$0")/../web/dist
if [ -f "$web/gyrus.js" ]; then
  mkdir "$lib/web"
  cp -r "$web"/{gyrus.js,gyrus.d.ts,example,page} "$lib/web"
else
  echo "bundle: web/dist is not built, so gyrus export and gyrus web will not work from this bundle; make web builds it" >&2
fi
# What others ask to be told of their libraries.
cp "$(dirname "$0")/../LICENSE" "$(dirname "$0")/../CITATION.cff" "$out"
ldd "${programs[@]}" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u | xargs "$(dirname "$0")/licences.sh" \
  "$out/third-party-licences.txt" "$loader"
# NVIDIA without a display: VK_ICD_FILENAMES may name this file; gyrus tries the same by itself.
cat >"$out/nvidia_egl_icd.json" <<'JSON'
{"file_format_version": "1.0.0", "ICD": {"library_path": "libEGL_nvidia.so.0", "api_version": "1.4.303"}}
JSON
strip --strip-unneeded "$lib"/*.so* 2>/dev/null || true

# The bundle's libraries first, then where the machine has its driver.
start_script() {
  cat <<'SH'
#!/bin/sh
# Starts the program of this name in lib/ with the loader and the C library that lie beside it.
here=$(dirname "$(readlink -f "$0")")
exec "$here/lib/ld-linux-x86-64.so.2" --argv0 "$0" --library-path \
  "$here/lib:${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/nvidia/lib64:/usr/lib/x86_64-linux-gnu:/usr/lib64" \
  "$here/lib/$(basename "$0")" "$@"
SH
}
for program in "${programs[@]}"; do
  name=$(basename "$program")
  echo "file(RPATH_SET FILE \"$lib/$name\" NEW_RPATH \"\$ORIGIN\")" >"$out/rpath.cmake"
  cmake -P "$out/rpath.cmake"
  rm "$out/rpath.cmake"
  LD_LIBRARY_PATH="$lib" ldd "$lib/$name" | grep -q 'not found' && { echo "bundle: $program lacks a library" >&2; exit 1; }
  [ -z "$own_libc" ] || { start_script >"$out/$name"; chmod +x "$out/$name"; }
done
du -sh "$out" | awk '{print "bundle: " $2 ", " $1}'

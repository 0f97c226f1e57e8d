#!/usr/bin/env bash
# Installs the package with pip into an environment of its own, as docs/python.md says, and runs the README's lines there.
set -euo pipefail
root=$(realpath "$(dirname "$0")/../..")
python=/usr/bin/python3
[ -x "$python" ] || python=python3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
die() { echo "python: $1" >&2; exit 1; }
"$python" -m venv --system-site-packages "$folder/venv"
"$folder/venv/bin/pip" install --no-index --no-build-isolation "$root/python" >"$folder/log" 2>&1 ||
  die "cannot be installed: $(tail -20 "$folder/log")"

cd "$folder"
"$root/build/release/bin/gyrus" demo --files --size 32 --out out/demo --quiet
sed -n '/^```python$/,/^```$/p' "$root/README.md" | sed '/^```/d' >lines.py
[ "$(wc -l <lines.py)" = 5 ] || die "the README has other than five lines of Python"
env -u PYTHONPATH GYRUS_NO_CACHE=1 XDG_RUNTIME_DIR=/tmp venv/bin/python lines.py || die "the README's lines fail"
[ -s labels.nii.gz ] || die "the README's lines wrote nothing"
echo "python: installed with pip, the README's lines run"

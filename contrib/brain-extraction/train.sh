#!/usr/bin/env bash
# train.sh OUT SCAN…: label maps of these T1-weighted heads, and a network for skull stripping trained on them: OUT/trained/model.
# GYRUS names the program. LABELS=FILE takes that segmentation by model18cls, on the grid of the only scan, instead of
# computing it.
set -euo pipefail
here=$(dirname "$(realpath "$0")") gyrus=${GYRUS:-gyrus} out=${1:?usage: train.sh OUT SCAN…}
shift
[ $# -gt 0 ] || { echo 'usage: train.sh OUT SCAN…' >&2; exit 2; }
[ -z "${LABELS:-}" ] || [ $# -eq 1 ] || { echo 'LABELS is of one scan' >&2; exit 2; }
mkdir -p "$out/labels"
cp "$here/brain.json" "$out"
: > "$out/heads.tsv"
number=0
for scan in "$@"; do
  number=$((number + 1))
  head=$out/labels/head-$number
  [ -s "$head.nii.gz" ] || {
    brain=${LABELS:-$head-brain.nii.gz}
    if [ -z "${LABELS:-}" ]; then
      "$gyrus" segment "$scan" -m subcortical-fast --space conformed -o "$brain"
      "$gyrus" conform "$scan" "$head-scan.nii.gz"
      scan=$head-scan.nii.gz
    fi
    # 18: behind the labels of the model, also where a head lacks the last of them.
    "$gyrus" labels "$scan" "$brain" -o "$head.nii.gz" --first 18 --quiet
  }
  echo "labels/head-$number.nii.gz" >> "$out/heads.tsv"
done
resume=
[ ! -e "$out/trained/checkpoint.json" ] || resume=--resume
"$gyrus" train "$out/brain.json" $resume

#!/usr/bin/env bash
# contrib/snakemake against Debian's snakemake: snakemake_test.sh PROGRAM SOURCE-FOLDER. 77 where it is not installed.
set -euo pipefail
program=$1 source=$2
snakemake=/usr/bin/snakemake
[ -x "$snakemake" ] || { echo "SKIP: snakemake is not installed (scripts/setup.sh --with-tests)"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 "$source/tests/e2e/tiny_data.py" "$folder" 3
cd "$folder"
flow() {
  HOME=$folder "$snakemake" -s "$source/contrib/snakemake/Snakefile" -c2 --resources gpu=1 --keep-going "$@" --config \
    scans=scans.txt out=results model=model gyrus="$program" options=--no-conform 2>&1
}
die() { echo "FAILED: $*"; exit 1; }

flow
for i in 0 1 2; do
  [ -s "results/scan${i}_labels.nii.gz" ] || die "no labels of scan $i"
  [ "$(grep -c "^scan$i	" results/report.tsv)" = 2 ] || die "the table has not two labels of scan $i: $(cat results/report.tsv)"
done
again=$(flow)  # not through a pipe: grep -q would close it before snakemake is done
grep -q 'Nothing to be done' <<<"$again" || die "a second run did something: $again"

# A broken scan stops the table, not the other scans.
echo broken >scan1.nii.gz
rm -r results
if flow; then die "a broken scan went unnoticed"; fi
[ -s results/scan2_labels.nii.gz ] && [ ! -e results/scan1_labels.nii.gz ] && [ ! -e results/report.tsv ] ||
  die "not the files of the good scans alone: $(ls results)"
echo passed

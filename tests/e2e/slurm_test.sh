#!/usr/bin/env bash
# contrib/slurm against Debian's Slurm on this machine: slurm_test.sh PROGRAM SOURCE-FOLDER. Starts munged, slurmctld and
# slurmd of its own in a folder of its own, with ports of their own. 77 where they are not installed or may not run.
set -euo pipefail
program=$1 source=$2
for needed in munged slurmctld slurmd sbatch sinfo; do
  PATH=$PATH:/usr/sbin command -v "$needed" >/dev/null ||
    { echo "SKIP: $needed is not installed (scripts/setup.sh --with-tests)"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "SKIP: slurmd starts jobs of users, which needs root"; exit 77; }
PATH=$PATH:/usr/sbin
folder=$(mktemp -d)
chmod 755 "$folder"
daemons=()
finish() {
  kill "${daemons[@]}" 2>/dev/null || true
  wait "${daemons[@]}" 2>/dev/null || true
  rm -rf "$folder"
}
trap finish EXIT
die() { echo "FAILED: $*"; tail -n 20 "$folder"/*.log "$folder"/task-*.txt 2>/dev/null || true; exit 1; }

mkdir -m 755 "$folder/state" "$folder/spool" "$folder/munge"
dd if=/dev/urandom of="$folder/munge/key" bs=1024 count=1 2>/dev/null
chmod 400 "$folder/munge/key"
port=$((20000 + RANDOM % 20000))
host=$(hostname -s)
cat >"$folder/slurm.conf" <<CONF
ClusterName=gyrus
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmctldPort=$port
SlurmdPort=$((port + 1))
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=main Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$folder/slurm.conf
munged --foreground --force --key-file="$folder/munge/key" --socket="$folder/munge/socket" --pid-file="$folder/munge/pid" \
  --seed-file="$folder/munge/seed" --log-file="$folder/munge/log" >"$folder/munged.log" 2>&1 &
daemons+=($!)
for _ in $(seq 50); do [ -S "$folder/munge/socket" ] && break; sleep 0.1; done
slurmctld -D -c -f "$SLURM_CONF" >"$folder/slurmctld.log" 2>&1 &
daemons+=($!)
slurmd -D -c -f "$SLURM_CONF" -N "$host" >"$folder/slurmd.log" 2>&1 &
daemons+=($!)
for _ in $(seq 150); do sinfo -h -o %T 2>/dev/null | grep -q '^idle' && break; sleep 0.2; done
sinfo -h -o %T | grep -q '^idle' || die "the node did not come up: $(sinfo 2>&1)"

python3 "$source/tests/e2e/tiny_data.py" "$folder" 7
cd "$folder"
submit() {  # array, then what the script gets; waits, and answers with the highest exit status of its tasks
  local array=$1
  shift
  GYRUS=$program XDG_RUNTIME_DIR=/tmp GYRUS_NO_CACHE=1 timeout 120 sbatch --wait --array="$array" --cpus-per-task=1 \
    --output="$folder/task-%a.txt" "$source/contrib/slurm/gyrus.sbatch" "$@"
}
submit 0-2 scans.txt results --model model --no-conform || die "the array failed"
for i in $(seq 0 6); do [ -s "results/scan${i}_labels.nii.gz" ] || die "no labels of scan $i"; done
grep -h 'takes' task-*.txt | sort | tr '\n' ';' | grep -q '0 of 3 takes 3 scans;.*1 of 3 takes 2 scans;.*2 of 3 takes 2 scans' ||
  die "the shares are not 3, 2 and 2"

# A broken scan fails its task with the status of gyrus; the others' results are there. Steps and offsets change nothing.
echo broken >scan1.nii.gz
rm -r results
status=0
submit 5-9:2 scans.txt results --model model --no-conform || status=$?
[ "$status" = 9 ] || die "exit status $status, not 9"
[ "$(ls results | wc -l)" = 6 ] || die "not the six good results: $(ls results)"

# Two scans of one name in two tasks: both tasks refuse, and nothing is written. With names of their own both are done.
mkdir sub-01 sub-02
cp scan0.nii.gz sub-01/T1.nii.gz
cp scan2.nii.gz sub-02/T1.nii.gz
printf '%s\n' "$folder/sub-01/T1.nii.gz" "$folder/sub-02/T1.nii.gz" >same.txt
rm -r results
status=0
submit 0-1 same.txt results --model model --no-conform || status=$?
[ "$status" = 2 ] && [ ! -e results ] || die "a clash of names was not refused: $status"
submit 0-1 same.txt results --model model --no-conform --name '{parent}_{stem}' || die "names of their own failed"
status=0
submit 0-1 same.txt results --model model --no-conform --name '{parent}_{stem}' --qc=qc.html || status=$?
[ "$status" = 2 ] && [ ! -e qc.html ] || die "a page of one task's part was not refused: $status"
[ -s results/sub-01_T1_labels.nii.gz ] && [ -s results/sub-02_T1_labels.nii.gz ] || die "not both: $(ls results)"
echo passed

#!/bin/bash
# A Slurm of one machine from Debian's packages (slurm-wlm, munge), as root: an array of four shares of which one is requeued in the
# middle, a merge that waits for it, and the bytes compared with those of a single run.
#
#   cargo build --release && sudo examples/slurm/try.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
qcs=$PWD/target/release/qcs
here=$PWD/examples/slurm
work=$(mktemp -d)
chmod 755 "$work"
export PATH=${qcs%/*}:$PATH SLURM_CONF=$work/slurm.conf
command -v slurmctld >/dev/null || { apt-get update -qq && apt-get install -y -qq slurm-wlm munge; }

cores=$(nproc)
cat >"$SLURM_CONF" <<CONF
ClusterName=try
SlurmctldHost=$(hostname -s)(127.0.0.1)
AuthType=auth/munge
SlurmUser=root
SlurmctldPort=16817
SlurmdPort=16818
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/ctld.pid
SlurmdPidFile=$work/d.pid
SlurmctldLogFile=$work/ctld.log
SlurmdLogFile=$work/d.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobRequeue=1
KillWait=20
NodeName=$(hostname -s) NodeAddr=127.0.0.1 CPUs=$cores State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
mkdir -p "$work/state" "$work/spool" /run/munge
pids=()
finish() {
    scancel --quiet --state=RUNNING 2>/dev/null || true
    scancel --quiet --state=PENDING 2>/dev/null || true
    for file in "$work/d.pid" "$work/ctld.pid"; do [ -s "$file" ] && kill "$(cat "$file")" 2>/dev/null || true; done
    [ -n "${munge:-}" ] && kill "$munge" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
if ! munge -n >/dev/null 2>&1; then
    [ -s /etc/munge/munge.key ] || { dd if=/dev/urandom of=/etc/munge/munge.key bs=1024 count=1 status=none; }
    chown munge: /etc/munge/munge.key /run/munge && chmod 400 /etc/munge/munge.key
    runuser -u munge -- munged --force --socket=/run/munge/munge.socket.2
    munge=$(pgrep -n munged)
    sleep 1
fi
slurmctld -c
slurmd
for _ in $(seq 30); do sinfo -h -o %T 2>/dev/null | grep -q idle && break; sleep 1; done
sinfo

cd "$work"
"$qcs" measure bundled:digits -o problem.safetensors --matrix ill-conditioned --kappa 1000 -m 400
settings=(--method diag,turbo --levels 100 --threads 1 --device cpu)
"$qcs" run problem.safetensors --out whole "${settings[@]}" --quiet

array=$(sbatch --parsable --array=1-4 --cpus-per-task=1 "$here/array.sbatch" problem.safetensors results "${settings[@]}")
echo "array $array"
# Task 1 is requeued as soon as it has something to lose.
for _ in $(seq 100); do ls results/shard-1-of-4/checkpoint-*.safetensors >/dev/null 2>&1 && break; sleep 0.2; done
sleep 1
scontrol requeue "${array}_1"
merge=$(sbatch --parsable --dependency="afterok:$array" "$here/merge.sbatch" results)
echo "requeued ${array}_1; merge is job $merge"
# A requeued job waits for two minutes by Slurm's rule; it need not here.
for _ in $(seq 300); do
    scontrol update JobId="${array}_1" StartTime=now >/dev/null 2>&1 || true
    [ -z "$(squeue -h)" ] && break
    sleep 1
done
squeue
tail -n 4 qcs-*.log
for file in config.toml truth.npy metrics.csv diag/samples.npy turbo/samples.npy grid.png; do
    cmp "whole/$file" "results/$file" && echo "$file: the same bytes"
done
grep -l "continues from its checkpoint" "qcs-$array-1.log" && echo "task 1 was requeued and went on; the merged run equals the single one"

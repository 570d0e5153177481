#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# slurm.sh - the script of `weft launch --slurm` on a cluster of two nodes on this host (slurmctld, two slurmd in
# network namespaces, munge): a job that reaches its time limit saves, is requeued, and ends with the weights of a run
# without Slurm. Then studies: an array job whose runs have two ranks each, and runs placed by srun, of which one node
# fails. Needs root, iproute2, slurm-wlm and munge: tools/deps.sh --slurm.
set -u
source tests/tap
source tests/mpi/mpi
use_scratch
net=weft$$ daemons=()
end() {
    ((${#daemons[@]} == 0)) || kill "${daemons[@]}" 2>/dev/null
    sleep 2
    for host in a b; do # processes that the daemons started and left
        ip netns pids "$net-$host" 2>/dev/null | xargs -r kill -KILL 2>/dev/null
    done
    tests/mpi/hosts "$net" down
    rm -rf "$scratch"
}
trap end EXIT
if ! command -v slurmctld munged >/dev/null || ! has openmpi; then
    skip "a Slurm job" "slurm-wlm, munge or Open MPI is not installed: tools/deps.sh --slurm"
    finish
fi
if ! tests/mpi/hosts "$net" up; then
    skip "a Slurm job" "two hosts cannot be created"
    finish
fi

# on HOST WORDS...: a daemon on one of the hosts. (ip netns exec would hide /sys from slurmd.)
on() {
    local host=$net-$1
    shift
    nsenter --net="/var/run/netns/$host" unshare --uts sh -c "hostname $host; exec \"\$@\"" sh "$@" >>"$scratch/daemons" 2>&1 &
    daemons+=($!)
}
mkdir -p "$scratch"/{munge,state,spool-a,spool-b,tmp-a,tmp-b}
chmod 755 "$scratch" "$scratch/munge"
chown -R munge: "$scratch/munge"
head -c 128 /dev/urandom >"$scratch/munge/key" && chmod 400 "$scratch/munge/key" && chown munge: "$scratch/munge/key"
setpriv --reuid munge --regid munge --clear-groups munged --force --foreground --key-file "$scratch/munge/key" \
    --socket "$scratch/munge/socket" --pid-file "$scratch/munge/pid" --log-file "$scratch/munge/log" \
    --seed-file "$scratch/munge/seed" >>"$scratch/daemons" 2>&1 &
daemons+=($!)
cat >"$scratch/slurm.conf" <<END
ClusterName=weft
SlurmctldHost=$net-a(10.77.0.1)
SlurmUser=root
AuthInfo=socket=$scratch/munge/socket,cred_expire=10
MpiDefault=pmix
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
StateSaveLocation=$scratch/state
SlurmctldPidFile=$scratch/slurmctld.pid
SlurmdPidFile=$scratch/slurmd-%n.pid
SlurmdSpoolDir=$scratch/spool-%n
TmpFS=$scratch/tmp-%n
SlurmctldLogFile=$scratch/slurmctld.log
SlurmdLogFile=$scratch/slurmd-%n.log
SlurmctldPort=6917
SlurmdTimeout=15
ReturnToService=2
NodeName=a NodeAddr=10.77.0.1 NodeHostname=$net-a Port=6918 CPUs=$(nproc) State=UNKNOWN
NodeName=b NodeAddr=10.77.0.2 NodeHostname=$net-b Port=6918 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=a,b Default=YES MaxTime=60 OverSubscribe=NO
END
export SLURM_CONF=$scratch/slurm.conf
sleep 2
on a slurmctld -D -i -f "$SLURM_CONF"
sleep 3
on a slurmd -D -N a -f "$SLURM_CONF"
on b slurmd -D -N b -f "$SLURM_CONF"
slurm() { nsenter --net="/var/run/netns/$net-a" "$@"; }
for ((i = 0; i < 60; i++)); do
    [[ $(slurm sinfo -h -o '%T %D' 2>/dev/null) == 'idle 2' ]] && break
    sleep 1
done
slurm sinfo | sed 's/^/# /'
[[ $(slurm sinfo -h -o '%T %D') == 'idle 2' ]]
result $? "a cluster of two nodes"

words=(train gpt2 --threads 1 --json --stall 30 --out "$scratch/run")
for one in layers=2 width=32 heads=2 context=32 recall_length=16 steps="${WEFT_SLURM_STEPS:-12000}" batch=2 micro_batches=8 \
    checkpoint_every=1000 keep=2 eval_samples=32; do
    words+=(--set "$one")
done
"$weft" "${words[@]/$scratch\/run/$scratch/alone}" >"$scratch/json" 2>"$scratch/err"
hash=$(field weights_sha256 <"$scratch/json")
"$weft" launch -n 2 --slurm -- "${words[@]}" >"$scratch/job.sbatch"
result $? "a script"
id=$(slurm sbatch --parsable --nodes=2 --ntasks-per-node=1 --cpus-per-task=1 --time=2 --signal=B:USR1@45 \
    --output="$scratch/output" "$scratch/job.sbatch")
for ((i = 0; i < 900; i++)); do
    state=$(slurm scontrol show job "$id" | sed -n 's/ *JobState=\([A-Z_]*\).*/\1/p')
    [[ $state == PENDING || $state == RUNNING || $state == COMPLETING ]] || break
    sleep 1
done
again=$(slurm scontrol show job "$id" | grep -o 'Restarts=[0-9]*' | tr -dc 0-9)
echo "# job $id: $state, put back $again times"
[[ $state == COMPLETED ]] && ((again >= 1))
result $? "the job was put back into the queue and completed"
[[ $(grep -o '"weights_sha256": "[0-9a-f]*"' "$scratch/output" | tail -n 1) == *"$hash"* ]] &&
    grep -q 'stopped by SIGUSR1' "$scratch/output" && grep -q resuming "$scratch/output"
status=$?
result $status "it saved, continued, and has the weights of a run alone"

cat >"$scratch/study" <<'END'
CONFIG_WEFT_PRESET="gpt2"
CONFIG_WEFT_ARMS="dot: geom=dot | w2: geom=w2"
CONFIG_WEFT_LAYERS=2
CONFIG_WEFT_WIDTH=32
CONFIG_WEFT_HEADS=2
CONFIG_WEFT_CONTEXT=32
CONFIG_WEFT_RECALL_LENGTH=16
CONFIG_WEFT_BATCH=2
CONFIG_WEFT_MICRO_BATCHES=8
CONFIG_GPT2_MAX_ITERS=2000
CONFIG_WEFT_CHECKPOINT_EVERY=200
CONFIG_WEFT_KEEP=2
CONFIG_WEFT_EVAL_SAMPLES=16
CONFIG_WEFT_SEEDS=2
END
study() { # OUT ARGUMENTS...
    slurm "$weft" ablate --config "$scratch/study" --threads 1 --set slots=2 --out "$scratch/$1" "${@:2}" >>"$scratch/studies" 2>&1
}
ledger() { # STUDY: arms, seeds and weights
    sed -E 's/.*"arm": "(.*)", "lr".*"seed": ([0-9]*),.*"weights_sha256": "([0-9a-f]*)".*/\1 \2 \3/' "$scratch/$1/runs.jsonl" | sort
}
study here
study array --slurm --launch 'srun --mpi=pmix' &&
    slurm sbatch --wait --ntasks=2 --cpus-per-task=1 --output="$scratch/array-%a" "$scratch/array/study.sbatch" >>"$scratch/studies"
[[ $(ledger here | wc -l) == 4 ]] && cmp -s <(ledger here) <(ledger array) &&
    [[ $(cat "$scratch"/array/runs/*/*/result.json | grep -c '"ranks": 2,') == 4 ]]
result $? "an array job whose runs have two ranks each gives the weights of the study alone"

study placed --launch 'srun -N1 -n1 -c1' &
placed=$!
for ((i = 0; i < 600; i++)); do
    (($(ls -d "$scratch"/placed/runs/*/*/step-* 2>/dev/null | cut -d/ -f 1-7 | uniq | wc -l) >= 2)) && break
    sleep 0.1
done
slurm squeue -o '# %i %T %N'
mapfile -t gone < <(ip netns pids "$net-b")
echo "# node b dies, with ${#gone[@]} processes"
kill -KILL "${gone[@]}"
wait $placed
code=$?
grep -E 'lost|started|FAILED|done' "$scratch/studies" | tail -n 12 | sed 's/^/# /'
[[ $code == 0 ]] && cmp -s <(ledger here) <(ledger placed) && grep -q 'lost, will be restarted' "$scratch/studies"
result $? "a study placed by srun loses a node, continues on the other, and has the same weights"
((tap_failed == 0)) || tail -n 30 "$scratch/studies" "$scratch"/array-* "$scratch/output" "$scratch"/*.log "$scratch/daemons" | sed 's/^/# /'
finish

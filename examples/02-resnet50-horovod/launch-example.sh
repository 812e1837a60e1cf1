#!/bin/bash
# Trains ResNet-50 on MACHINES machines with ACCELERATORS accelerators each, under mpirun.
# Usage: ./launch-example.sh MACHINES ACCELERATORS [flags of train.py]
#
# The machines and their slots come from the hostfile of the job (OMPI_MCA_orte_default_hostfile), as `arena submit mpi`
# gives it. What train.py reads of the environment (DATA_DIR, num_batch, ...) reaches every rank.
set -euo pipefail

machines=${1:?usage: launch-example.sh MACHINES ACCELERATORS [flags of train.py]}
accelerators=${2:?usage: launch-example.sh MACHINES ACCELERATORS [flags of train.py]}
shift 2
here=$(cd "$(dirname "$0")" && pwd)
python=${HOROVOD_PYTHON:-$here/../../.cache/horovod/bin/python}
[[ -x $python ]] || python=python3

# One rank for each accelerator, as Horovod wants it. An emulated accelerator computes nothing, so that where processors
# are few, one rank a machine drives all of the machine's: it reads and waits for all of them.
ranks=${ranks_per_machine:-$accelerators}
if [[ -z ${ranks_per_machine:-} && ${accelerator:-} == emulated-* && $(nproc) -lt $((2 * accelerators)) ]]; then
    ranks=1
fi
if ((ranks < 1 || accelerators % ranks != 0)); then
    echo "launch-example: $accelerators accelerators of a machine cannot be shared by $ranks ranks" >&2
    exit 2
fi
if ((ranks != accelerators)); then
    echo "launch-example: $ranks rank(s) on each machine drive its $accelerators accelerators"
fi

options=(--bind-to none)
# Ranks that share processors must not burn them while they wait for each other.
export OMPI_MCA_mpi_yield_when_idle=${OMPI_MCA_mpi_yield_when_idle:-1}
[[ $(id -u) -eq 0 ]] && options+=(--allow-run-as-root)
if [[ -n ${OMPI_MCA_orte_default_hostfile:-} ]]; then
    options+=(--map-by "ppr:$ranks:node")
else
    echo "launch-example: there is no hostfile, so that all ranks run on this machine" >&2
    options+=(--oversubscribe)
fi

# mpirun hands on its own variables alone.
names=(DATA_DIR num_batch datasets_num_private_threads accelerator slowdown batch_size sample_images network image_size
    eval_images seed display_every shuffle_images prefetch_batches learning_rate parallel_files HOROVOD_CYCLE_TIME)
# Fewer rounds of negotiation: each wakes every rank, and emulated accelerators leave time for it.
[[ ${accelerator:-} == emulated-* ]] && export HOROVOD_CYCLE_TIME=${HOROVOD_CYCLE_TIME:-10}
for name in "${names[@]}"; do
    [[ -n ${!name+set} ]] && options+=(-x "$name")
done

exec mpirun -np "$((machines * ranks))" "${options[@]}" \
    "$python" "$here/train.py" --accelerators-per-rank "$((accelerators / ranks))" "$@"

#!/bin/sh
# Runs mpirun in a lab, with one or more ranks in each host's namespace:
#
#     tributary lab run TOPOLOGY -- examples/mpirun-in-lab.sh RANKS_PER_HOST MPIRUN_ARGUMENTS... PROGRAM ARGUMENTS...
#
# Every host runs this script. mpirun runs on the first host. To start Open MPI's daemon on another host, it calls this
# script with --on ADDRESS COMMAND, where it would call ssh. The command then goes to that host's copy of the script,
# which runs it. Values travel by TCP over the lab's links, and the daemons' messages over the management network.
set -eu
folder=$(dirname "$TRIBUTARY_TOKEN_FILE")/mpirun

# Both ends of a pipe create it, because either may be first. Opening a pipe waits for the other end.
pipe() {
    mkdir -p "$folder"
    mkfifo "$folder/$1" 2>/dev/null || [ -p "$folder/$1" ]
    echo "$folder/$1"
}

if [ "$1" = --on ]; then
    address=$2
    shift 2
    # mpirun's environment is not part of the command.
    printf '%s\n' "$*" >"$(pipe "command-$address")"
    exit 0
fi

ranks=$1
shift
address=$(ip -4 -o address show dev mgmt0 | sed 's/.* inet \([0-9.]*\).*/\1/')
# By default, the daemons of all hosts would share one folder, because all hosts of a lab have this machine's name.
export TMPDIR="$folder/$address"
mkdir -p "$TMPDIR"

if [ "$TRIBUTARY_RANK" -gt 0 ]; then
    echo "$address" >"$(pipe "address-$TRIBUTARY_RANK")"
    command=$(cat "$(pipe "command-$address")")
    exec sh -c "$command"
fi

hosts=$address:$ranks
other=1
while [ "$other" -lt "$TRIBUTARY_WORLD_SIZE" ]; do
    hosts=$hosts,$(cat "$(pipe "address-$other")"):$ranks
    other=$((other + 1))
done
trap 'rm -rf "$folder"' EXIT
# A rank that waits yields its processor, because a lab has more ranks than processors.
mpirun --allow-run-as-root -n $((ranks * TRIBUTARY_WORLD_SIZE)) --host "$hosts" --oversubscribe --bind-to none \
    --mca plm_rsh_agent "$0 --on" --mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_if_include mgmt0 \
    --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_exclude lo,mgmt0 --mca mpi_yield_when_idle 1 "$@"

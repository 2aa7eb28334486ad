#!/usr/bin/env bash
# slurm.sh up | down : start or stop a real Slurm (controller, four node daemons, munge) on loopback, with two fake GPUs per node, as
# root; 5 s. Jobs over their memory limit are killed. Partition `gpu` has node1 and `pair` two others. A job in `preemptible` is
# requeued if one in `urgent` needs their node4. All nodes are this machine, and each reports most of its memory. There is no
# accounting database, as on many small clusters.
set -euo pipefail
dir=/var/tmp/speedproof-ci/slurm
stop() {
  # Check the name, too: after a reboot, another process may have this pid.
  for pid in "$dir"/*.pid; do [ -f "$pid" ] && pgrep -F "$pid" '^slurm' >/dev/null 2>&1 && kill "$(cat "$pid")" || true; done
  sleep 1
  rm -rf "$dir"
}
case ${1:-} in
up)
  stop # a killed run leaves its cluster, whose jobs would return and hold the nodes
  nodes=4
  if ! command -v slurmctld >/dev/null; then
    apt-get -qq update
    apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends slurm-wlm munge >/dev/null
  fi
  mkdir -p "$dir/state" /etc/slurm /run/munge
  [ -f /etc/munge/munge.key ] || /usr/sbin/mungekey --create
  chown munge:munge /run/munge /etc/munge/munge.key
  munge -n >/dev/null 2>&1 || runuser -u munge -- /usr/sbin/munged
  memory=$(awk '/MemTotal/ {print int($2 / 1024 * 0.8)}' /proc/meminfo)
  cat >/etc/slurm/slurm.conf <<CONF
ClusterName=loopback
SlurmctldHost=$(hostname -s)(127.0.0.1)
AuthType=auth/munge
SlurmUser=root
SlurmdUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
ReturnToService=2
MinJobAge=3600
KillWait=10
MpiDefault=none
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=2
JobAcctGatherParams=OverMemoryKill
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool.%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.%n.log
CONF
  : >/etc/slurm/gres.conf
  for i in $(seq "$nodes"); do
    echo "NodeName=node$i NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=$((17000 + i)) CPUs=$(nproc) RealMemory=$memory Gres=gpu:2 State=UNKNOWN" >>/etc/slurm/slurm.conf
    printf 'NodeName=node%s Name=gpu File=/dev/null\nNodeName=node%s Name=gpu File=/dev/zero\n' "$i" "$i" >>/etc/slurm/gres.conf
    mkdir -p "$dir/spool.node$i"
  done
  cat >>/etc/slurm/slurm.conf <<CONF
PartitionName=gpu Nodes=node1 Default=YES MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
PartitionName=pair Nodes=node2,node3 MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
PartitionName=urgent Nodes=node4 MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
PartitionName=preemptible Nodes=node4 MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE
CONF
  setsid slurmctld </dev/null >/dev/null 2>&1
  for i in $(seq "$nodes"); do setsid slurmd -N "node$i" </dev/null >/dev/null 2>&1; done
  for _ in $(seq 30); do [ "$(sinfo -h -N -t idle -o %N 2>/dev/null | sort -u | wc -l)" = "$nodes" ] && exit 0; sleep 1; done
  tail -n 20 "$dir"/*.log >&2
  exit 1
  ;;
down)
  stop
  ;;
*)
  echo "usage: slurm.sh up | down" >&2
  exit 2
  ;;
esac

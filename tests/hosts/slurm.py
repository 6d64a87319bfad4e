"""A real Slurm on the hosts of a lab: packages munge, slurmctld, slurmd, slurm-client.

Its controller runs beside the hosts, as "head" on their network; it goes when the lab goes. Commands find it by
SLURM_CONF=/run/lab/slurm/slurm.conf in their environment.
"""
import os
import shutil
import subprocess

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")

CONFIG = """
ClusterName=lab
SlurmctldHost=head({head})
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=10
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdLogFile={folder}/slurmd.%n.log
SlurmdSpoolDir={folder}/spool.%n
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1
ReturnToService=2
SlurmdTimeout=5
KillWait=5
MessageTimeout=5
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=5
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


def lacking():
    """What keeps Slurm from running here; empty if nothing does."""
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    return f"no {', '.join(missing)}: launch/install_packages munge slurmctld slurmd slurm-client" if missing else ""


class Slurm:
    def __init__(self, folder, head, hosts, node_of):
        """`hosts` are names with addresses; `node_of` starts a program on a host by its name."""
        self.folder, self.node_of, self.running = folder, node_of, []
        os.makedirs(folder / "state")
        nodes = [f"NodeName={name} NodeAddr={address} CPUs=8 RealMemory=4000 State=UNKNOWN" for name, address in hosts]
        config = CONFIG.format(head=head, folder=folder, nodes="\n".join(nodes))
        (folder / "slurm.conf").write_text(config)
        key = folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        self.beside("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket",
                    f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log",
                    f"--seed-file={folder}/munge.seed", "--num-threads=2")
        self.beside("slurmctld", "-D", "-c", "-f", folder / "slurm.conf")
        for name, _ in hosts:
            self.start_node(name)

    def beside(self, *words):
        """Starts a program in the lab's own namespaces, which ends with the lab."""
        with open(self.folder / f"{words[0]}.out", "w") as out:
            self.running.append(subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *map(str, words)],
                                                 stdin=subprocess.DEVNULL, stdout=out, stderr=out))

    def start_node(self, name):
        self.node_of(name, "slurmd", "-c", "-f", self.folder / "slurm.conf", "-N", name)

    def idle(self):
        """How many nodes wait for jobs."""
        done = subprocess.run(["sinfo", "--noheader", "--Node", "--partition=main", "--states=idle"], text=True,
                              capture_output=True, env={**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")})
        return len(done.stdout.splitlines())

    def close(self):
        for process in self.running:
            process.kill()
            process.wait()

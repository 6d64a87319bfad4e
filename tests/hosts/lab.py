#!/usr/bin/env python3
"""Hosts made of one Linux machine, as root: usage: lab.py HOSTS | lab.py --check [slurm]

Each host h0, h1, ... is a network, ipc, uts, mount, pid and time namespace of its own, with its own /dev/shm, /sys and
monotonic clock, as of machines that were started at other times; files are the machine's. A bridge joins them in one
more network namespace, so that labs beside each other do not meet, and the machine's own network never sees one.
Prints "ok PID...", the first process of each host, and then obeys the lines of its standard input. Each is answered by
"ok" or by "failed: WHY":

  run H COMMAND...   runs a command on host H, whose output comes first
  cut H, heal H      pulls the cable of a host, which nobody is told of; puts it back
  poweroff H, boot H the cable first, then every process; boot answers "ok PID"
  drop A B, undrop   two hosts no longer reach each other, but everybody else; undrop is for all of them
  loss H PERMILLE    of what a host sends is lost; 0: nothing
  rate H MBIT        a second is what a host sends and receives at most; 0: no limit
  ssh                an SSH server on each host, with keys made for it: ssh -F /run/lab/ssh_config h1
  slurm              a Slurm whose nodes the hosts are: SLURM_CONF=/run/lab/slurm/slurm.conf sbatch ... (slurm.py)
  private H PATH     host H has an empty file system of its own at that path

When its input ends, nothing of it is left. Nor is there if it is killed: hosts die with it, and the kernel removes what
no process uses. --check says what the machine lacks, for Slurm too if asked, and ends with 77 then.
"""
import os
import pathlib
import pwd
import shlex
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # leave nothing in the source folder
import slurm

PROGRAMS = ("ip", "tc", "nft", "nsenter", "setpriv", "unshare", "ssh", "ssh-keygen", "/usr/sbin/sshd")
OF_A_LAB = ("--net", "--ipc", "--uts", "--mount", "--propagation", "private")
OF_A_HOST = (*OF_A_LAB, "--pid", "--time", "--fork", "--kill-child=KILL")
ENTER = ("--net", "--ipc", "--uts", "--mount", "--pid", "--time")
INSIDE = "TROUPE_LAB_INSIDE"  # set in the environment of a lab in its namespaces
FILES = pathlib.Path("/run/lab")  # in a /run that only the lab has
SKIPPED = 77  # as gpu/presence.h has it

# The first process of a host. It says its number as the machine counts, and reaps what loses its parent.
FIRST_PROCESS = """
set -e
read -r pid _ </proc/self/stat
mount -t proc proc /proc
mount --rbind /sys/fs/cgroup /run/lab/cgroup
mount -t sysfs sysfs /sys
mount --rbind /run/lab/cgroup /sys/fs/cgroup
mount -t tmpfs -o size=1g tmpfs /dev/shm
hostname "$0"
ip link set lo up
echo "$pid"
exec >&-
sleep infinity &
while wait; do :; done
"""

SSHD_CONFIG = f"""
HostKey {FILES}/host_key
AuthorizedKeysFile {FILES}/user_key.pub
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
UsePAM no
PidFile none
MaxStartups 100:30:200
"""

SSH_CONFIG = f"""
Host h* 10.88.0.*
  User root
  IdentityFile {FILES}/user_key
  UserKnownHostsFile {FILES}/known_hosts
  BatchMode yes
  StrictHostKeyChecking yes
  ConnectTimeout 5
"""


HEAD = "10.88.0.1"  # the lab itself, where Slurm's controller is


def address(host):
    return f"10.88.0.{10 + host}"


def command(*words, text=None):
    """Runs a command to its end; an error has what it said."""
    done = subprocess.run([str(word) for word in words], input=text, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(map(str, words))}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def until(holds, what):
    deadline = time.monotonic() + 30
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what}: not within 30 s")
        time.sleep(0.005)


class Lab:
    def __init__(self, count):
        self.off = set(range(count))
        self.pids = [0] * count
        self.inits = [None] * count  # the process of the machine that each host's life hangs on
        self.dropped = set()
        self.lost = {}
        self.has_ssh = False
        self.of_slurm = None
        command("mount", "-t", "tmpfs", "tmpfs", "/run")
        for folder in (FILES / "cgroup", "/run/sshd", "/run/lock"):
            os.makedirs(folder)
        names = [f"{address(host)} h{host}\nfd88::{10 + host:x} h{host}-v6" for host in range(count)]
        (FILES / "hosts").write_text("\n".join(["127.0.0.1 localhost", "::1 localhost", f"{HEAD} head", *names, ""]))
        command("mount", "--bind", FILES / "hosts", "/etc/hosts")
        # A shell that sshd starts reads them: what they run is none of a host's, and may wait for a lock that a host
        # without power has left.
        for file in (".bashrc", ".zshenv"):
            if (path := pathlib.Path(pwd.getpwuid(os.getuid()).pw_dir) / file).exists():
                command("mount", "--bind", "/dev/null", path)
        command("ip", "link", "add", "lab", "type", "bridge", "mcast_snooping", "0")
        command("ip", "link", "set", "lab", "up")
        command("ip", "link", "set", "lo", "up")
        command("ip", "address", "add", f"{HEAD}/24", "dev", "lab")
        command("hostname", "head")
        for host in range(count):
            self.boot(host)

    def boot(self, host):
        if host not in self.off:
            raise RuntimeError(f"h{host} is on")
        errors = FILES / f"h{host}.err"
        clock = f"--monotonic={1000 * (1 + host)}"  # seconds ahead of the machine's
        program = ["bash", "-c", FIRST_PROCESS, f"h{host}"]
        words = ["setpriv", "--pdeathsig", "KILL", "unshare", *OF_A_HOST, clock, *program]
        with open(errors, "w") as err:
            init = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err, text=True)
        self.inits[host] = init
        said = init.stdout.readline()
        if not said:
            raise RuntimeError(f"h{host} ended: {errors.read_text()}")
        self.pids[host] = int(said)
        # A fixed address of the card, as a machine has that comes back: others remember it.
        command("ip", "link", "add", f"h{host}", "type", "veth", "peer", "name", "eth0", "address",
                f"02:88:00:00:00:{10 + host:02x}", "netns", self.pids[host])
        command("ip", "link", "set", f"h{host}", "master", "lab", "up")
        self.on(host, "ip", "-batch", "-", text=f"address add {address(host)}/24 dev eth0\n"
                f"address add fd88::{10 + host:x}/64 dev eth0 nodad\nlink set eth0 up\n")
        self.off.remove(host)
        if self.has_ssh:
            self.start_sshd(host)
        if self.of_slurm:
            self.of_slurm.start_node(f"h{host}")
        return str(self.pids[host])

    def on(self, host, *words, text=None):
        return command("nsenter", f"--target={self.pids[host]}", *ENTER, *words, text=text)

    def run(self, host, *words):
        done = subprocess.run(["nsenter", f"--target={self.pids[host]}", *ENTER, *words], stdin=subprocess.DEVNULL)
        if done.returncode:
            raise RuntimeError(f"exit code {done.returncode}")

    def cut(self, host):
        command("ip", "link", "set", f"h{host}", "down")

    def heal(self, host):
        command("ip", "link", "set", f"h{host}", "up")

    def poweroff(self, host):
        self.cut(host)
        self.end(host)
        # The kernel removes it some time after the host's last process.
        subprocess.run(["ip", "link", "delete", f"h{host}"], capture_output=True)

    def end(self, host):
        """Kills the first process, with which the kernel ends all others, and waits for the end of them all."""
        os.kill(self.pids[host], signal.SIGKILL)
        self.inits[host].wait()
        self.off.add(host)

    def drop(self, one, other):
        self.dropped |= {(one, other), (other, one)}
        self.filter()

    def undrop(self):
        self.dropped.clear()
        self.filter()

    def loss(self, host, permille):
        self.lost[host] = permille
        self.filter()

    def filter(self):
        """Makes the bridge pass on the rest. A host out of reach is still a neighbour, whose address is known."""
        rules = [f'iifname "h{a}" oifname "h{b}" {kind} drop' for a, b in sorted(self.dropped)
                 for kind in ("ether type ip", "ether type ip6 meta l4proto != ipv6-icmp")]
        rules += [f'iifname "h{host}" ' + (f"numgen random mod 1000 < {permille} drop" if permille < 1000 else "drop")
                  for host, permille in self.lost.items() if permille]
        table = ["add table bridge lab", "delete table bridge lab", "table bridge lab {", "chain forwarded {",
                 "type filter hook forward priority 0", *rules, "}", "}", ""]
        command("nft", "-f", "-", text="\n".join(table))

    def rate(self, host, mbit):
        words = (["replace", "dev", "DEVICE", "root", "tbf", "rate", f"{mbit}mbit", "burst", "64kb", "latency", "50ms"]
                 if mbit else ["delete", "dev", "DEVICE", "root"])
        command("tc", "qdisc", *(f"h{host}" if word == "DEVICE" else word for word in words))
        self.on(host, "tc", "qdisc", *("eth0" if word == "DEVICE" else word for word in words))

    def ssh(self):
        for key in ("user_key", "host_key"):
            command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", FILES / key)
        public = (FILES / "host_key.pub").read_text()
        known = [f"h{host},{address(host)} {public}" for host in range(len(self.pids))]
        (FILES / "known_hosts").write_text("".join(known))
        (FILES / "sshd_config").write_text(SSHD_CONFIG)
        (FILES / "ssh_config").write_text(SSH_CONFIG)
        self.has_ssh = True
        for host in set(range(len(self.pids))) - self.off:
            self.start_sshd(host)

    def start_sshd(self, host):
        self.on(host, "/usr/sbin/sshd", "-f", FILES / "sshd_config")
        listens = ":0016 00000000:0000 0A"
        until(lambda: listens in pathlib.Path(f"/proc/{self.pids[host]}/net/tcp").read_text(), f"sshd of h{host}")

    def slurm(self):
        hosts = [(f"h{host}", address(host)) for host in range(len(self.pids))]
        self.of_slurm = slurm.Slurm(FILES / "slurm", HEAD, hosts, lambda name, *words: self.on(int(name[1:]), *words))
        until(lambda: self.of_slurm.idle() == len(hosts), "Slurm's nodes are idle")

    def private(self, host, path):
        self.on(host, "mount", "-t", "tmpfs", "tmpfs", path)

    def close(self):
        for host in set(range(len(self.pids))) - self.off:
            self.end(host)
        if self.of_slurm:
            self.of_slurm.close()


def obey(lab, line):
    name, *words = shlex.split(line)
    operations = ("run", "cut", "heal", "poweroff", "boot", "drop", "undrop", "loss", "rate", "ssh", "slurm", "private")
    if name not in operations:
        raise RuntimeError(f"{name}: no operation; there are {', '.join(operations)}")
    numbers = {"run": 1, "private": 1}.get(name, len(words))
    given = [int(word) for word in words[:numbers]]
    return getattr(lab, name)(*given, *words[numbers:])


def lacking():
    """Why no lab can be made here; empty if it can."""
    if os.geteuid():
        return "only root makes hosts"
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    if missing:
        return f"no {', '.join(missing)}: launch/install_packages openssh-server openssh-client iproute2 nftables"
    steps = ("mount -t proc proc /proc", "mount -t sysfs sysfs /sys", "mount -t tmpfs tmpfs /run", "hostname h0",
             "ip link add lab type bridge", "ip link add h0 type veth peer name eth0", "nft add table bridge lab",
             "ip link set h0 up", "tc qdisc replace dev h0 root tbf rate 1mbit burst 64kb latency 50ms")
    tried = subprocess.run(["unshare", *OF_A_HOST, "sh", "-e", "-c", "\n".join(steps)], capture_output=True, text=True)
    return f"no namespaces: {tried.stderr.strip()}" if tried.returncode else ""


def main():
    if sys.argv[1:] in (["--check"], ["--check", "slurm"]):
        reason = lacking() or (slurm.lacking() if "slurm" in sys.argv else "")
        print(f"skipped: {reason}" if reason else "ok")
        sys.exit(SKIPPED if reason else 0)
    if len(sys.argv) != 2 or not sys.argv[1].isdigit():
        sys.exit(__doc__)
    if INSIDE not in os.environ:
        os.execvpe("unshare", ["unshare", *OF_A_LAB, sys.executable, *sys.argv], {**os.environ, INSIDE: "1"})
    del os.environ[INSIDE]
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit())
    lab = None
    try:
        lab = Lab(int(sys.argv[1]))
        print("ok", *lab.pids, flush=True)
        for line in filter(str.strip, sys.stdin):
            try:
                answer = obey(lab, line)
                print(f"ok {answer}" if answer else "ok", flush=True)
            except (RuntimeError, TypeError, ValueError, IndexError, OSError) as fault:
                print("failed:", str(fault).replace("\n", " "), flush=True)
    finally:
        if lab:
            lab.close()


if __name__ == "__main__":
    main()

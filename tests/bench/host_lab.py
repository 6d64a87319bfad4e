"""Hosts for benchmarks: namespaces of this machine, which tests/hosts/lab.py makes, and runs over them."""
import contextlib, os, pathlib, select, subprocess, sys

from live_run import LiveRun
from measure import PATIENCE_S, ROOT, end, running, start

LAB = ROOT / "tests/hosts/lab.py"
CANNOT = 77  # the exit code by which the lab says that no hosts can be made
SSH = "ssh -F /run/lab/ssh_config"


class Lab:
    """Hosts 0, 1, ..., called h0, h1, ..."""

    def __init__(self, process):
        self.process = process
        self.pids = self._answer()

    def _answer(self):
        answer = self.process.stdout.readline().split()
        if answer[:1] != ["ok"]:
            raise RuntimeError(f"{LAB} answered {answer}")
        return answer[1:]

    def order(self, *words):
        """One of the operations that lab.py knows."""
        print(*words, file=self.process.stdin, flush=True)
        self._answer()

    def on(self, host):
        """The words before a command that runs on a host."""
        return "nsenter", f"--target={self.pids[host]}", "--net", "--ipc", "--uts", "--mount", "--pid", "--"

    def processes(self, host, word):
        """Numbers, as this machine counts, of the processes of a host that have this word in their command lines."""
        found, wanted = [], os.readlink(f"/proc/{self.pids[host]}/ns/pid")
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended
                words = (process / "cmdline").read_bytes().split(b"\0")
                if word.encode() in words and os.readlink(process / "ns/pid") == wanted:
                    found.append(int(process.name))
        return found


@contextlib.contextmanager
def hosts_of(count):
    """A lab of so many hosts until the context is left; None where none can be made, which standard error tells."""
    check = subprocess.run([LAB, "--check"], capture_output=True, text=True)
    if check.returncode == CANNOT:
        print(check.stdout.strip(), file=sys.stderr)
        yield None
        return
    with running(LAB, count, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Lab(process)


def hostfile(box, lab, slots):
    """The words that launch over all hosts, each with so many slots. SSH must have been started."""
    (box.dir / "hosts").write_text("".join(f"h{host}:{slots}\n" for host in range(len(lab.pids))))
    return "--hostfile", box.dir / "hosts", "--set", f"cluster.ssh={SSH}"


class HostsRun(LiveRun):
    """A run over all hosts of a lab, launched on h0."""

    def __init__(self, bench, box, lab, name, *settings, slots, **options):
        self.lab = lab
        lab.order("ssh")
        super().__init__(bench, box, name, *settings, where=lab.on(0), words=hostfile(box, lab, slots), **options)

    def resume(self, host):
        """Another launcher takes the run over, on this host."""
        end(self.launch)
        self.launch = start(*self.lab.on(host), *self.troupe[-1:], "launch", "--resume", self.dir,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def state_of(self, host):
        states = [event["state"] for event in self.events("host") if event["host"] == f"h{host}"]
        return states[-1] if states else ""

    def wait_for_state(self, host, *states):
        self.wait_for(f"h{host} to be {' or '.join(states)}", lambda: self.state_of(host) in states)


def wait_for_ends(processes):
    """Waits until all these processes, opened as by os.pidfd_open, have ended."""
    ends, left = select.poll(), set(processes)
    for process in left:
        ends.register(process, select.POLLIN)
    while left:
        ended = ends.poll(PATIENCE_S * 1000)
        if not ended:
            raise RuntimeError(f"waited {PATIENCE_S} s for the end of {len(left)} processes")
        for process, _ in ended:
            ends.unregister(process)
            os.close(process)
            left.remove(process)

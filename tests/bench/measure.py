"""Code that all benchmarks share: building their programs, repeated measurements, rows."""
import contextlib, ctypes, json, os, pathlib, signal, statistics, subprocess, sys, tarfile
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[2]
IN_BUNDLE = (ROOT / "bin").is_dir()  # of a folder that launch/make_bundle made, in which everything is built
BUILD = ROOT if IN_BUNDLE else ROOT / "build/release"
PATIENCE_S = 180  # longest wait for anything but a measurement
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


@dataclass
class Row:
    """A benchmark's result. `ratio` is ours over the peer's, above 1 if ours is better; None without a peer. `goal` is
    what the value, or the ratio, should be."""
    name: str
    value: float
    unit: str
    ratio: float | None = None
    peer: str | None = None
    goal: str | None = None


@dataclass
class Bench:
    """The argument of a benchmark function: where programs are, and how often to measure."""
    name: str
    build: pathlib.Path
    smoke: bool = False
    samples: dict = field(default_factory=dict)

    def repeats(self, full):
        """How many times to measure: `full`, or once if the test is only that it runs."""
        return 1 if self.smoke else full

    def program(self, name):
        return str(self.build / ("bin" if IN_BUNDLE else "tests/bench") / name)

    @property
    def troupe(self):
        return str(self.build / "troupe")

    def record(self, what, value):
        self.samples.setdefault(what, []).append(value)

    def median(self, what):
        return statistics.median(self.samples[what])

    def spread(self):
        """Every measured quantity as least .. median .. most, by which readers can judge the noise."""
        for what, values in self.samples.items():
            low, mid, high = min(values), statistics.median(values), max(values)
            yield f"{self.name}: {what}: {low:.4g} .. {mid:.4g} .. {high:.4g} ({len(values)} measured)"


def before_exec():
    """The program hears SIGINT, even if this one was started where it is ignored, and dies when this one does."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def start(*command, env=None, **options):
    """A program in the background; in a session of its own, so that a terminal's Ctrl-C only reaches this one, which
    ends it. Its caller must end() it."""
    return subprocess.Popen(list(map(str, command)), env={**os.environ, **(env or {})}, start_new_session=True,
                            preexec_fn=before_exec, **options)


def end(process):
    """Ends a program and what it left in its group; a launcher ends at once with the second signal, its workers when it
    has gone."""
    if process.poll() is None:
        for order in (signal.SIGINT, signal.SIGTERM):
            os.killpg(process.pid, order)
    try:
        process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        pass
    with contextlib.suppress(ProcessLookupError):  # nothing is left
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@contextlib.contextmanager
def running(*command, **options):
    """A program that runs until the context is left."""
    process = start(*command, **options)
    try:
        yield process
    finally:
        end(process)


class Worker:
    """A program that measures on order: it prints a line that begins with "ready", then answers each line with a
    number."""

    def __init__(self, *command, env=None):
        self.command = command
        self.process = start(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env=env)
        self.ready = self._line()
        if not self.ready.startswith("ready"):
            raise RuntimeError(f"{command[0]} answered {self.ready!r} where 'ready' was due")

    def _line(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(self.command)} ended: {self.process.stderr.read()[-2000:]}")
        return line.strip()

    def ask(self, order):
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        return float(self._line())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


def output_of(*command, env=None, timeout=120):
    """Standard output of a program that must end with exit code 0."""
    with running(*command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        out, error = process.communicate(timeout=timeout)
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit {process.returncode}: {(error or out)[-2000:]}")
    return out


def json_of(*command, env=None, timeout=120):
    """The JSON line that a program prints."""
    return json.loads(output_of(*command, env=env, timeout=timeout).splitlines()[-1])


def unpack_programs():
    """Unpacks the programs of a bundle, which lie in one archive."""
    with tarfile.open(ROOT / "bin/gpu_tests.tar.xz") as archive:
        archive.extractall(ROOT)


def build_programs(build, target):
    """Builds the benchmark programs of a target, and troupe; there is nothing to do if they are up to date."""
    commands = [] if (build / "CMakeCache.txt").exists() else [["cmake", "--preset", "release", "-B", str(build)]]
    commands.append(["cmake", "--build", str(build), "--target", target])
    for command in commands:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")

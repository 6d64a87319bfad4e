"""The cost of monitors: step time with a crowd attached over step time without, in turn within one run."""
import json, selectors, socket, struct, time

from cluster import RunBox
from live_run import LiveRun
from measure import Row

CROWD = 100  # number of subscribers to everything; every second one never reads
PAIRS = 21
BATCH = dict(seq_len=128, micro=1, samples=8)
STEPS = 3  # measured in each phase, after one that is not measured. Short pairs see the machine at one speed


def frame(fields):
    body = json.dumps(fields).encode()
    return struct.pack("<I", len(body)) + body


class Reader:
    """A subscriber of every kind of event over the control socket. One that is `deaf` never reads."""

    def __init__(self, control, deaf):
        self.socket = socket.create_connection((control["host"], control["port"]), 10)
        self.deaf = deaf
        self.bytes = b""
        self.socket.sendall(frame({"token": control["token"], "request": "attach", "kinds": "", "who": "crowd",
                                   "credit": 1000}))

    def read(self):
        """Reads the frames that have come and grants as many again. Returns how many there were; None at the end."""
        got = self.socket.recv(1 << 16)
        if not got:
            return None
        self.bytes += got
        frames = 0
        while len(self.bytes) >= 4 and len(self.bytes) >= (end := 4 + struct.unpack("<I", self.bytes[:4])[0]):
            self.bytes = self.bytes[end:]
            frames += 1
        if frames:
            self.socket.sendall(frame({"credit": frames}))
        return frames


class Crowd:
    """Readers that are served while wait() waits."""

    def __init__(self, run, size):
        control = json.loads((run / "control.json").read_text())
        self.readers = [Reader(control, deaf=i % 2 == 1) for i in range(size)]
        self.selector = selectors.DefaultSelector()
        for reader in self.readers:
            if not reader.deaf:
                self.selector.register(reader.socket, selectors.EVENT_READ, reader)
        self.frames = 0

    def wait(self, seconds):
        if not self.readers:
            return time.sleep(seconds)
        for key, _ in self.selector.select(seconds):
            frames = key.data.read()
            if frames is None:
                raise RuntimeError("the run ended before it was measured")
            self.frames += frames

    def leave(self):
        self.selector.close()
        for reader in self.readers:
            reader.socket.close()


def phase(run, size, steps):
    """Median step time of the next steps with a crowd of this size."""
    crowd = Crowd(run.dir, size)
    try:
        first = run.newest() + 2  # the step in progress began without this crowd
        run.wait_for(f"step {first + steps - 1}",
                     lambda: run.newest() >= first + steps - 1 and (crowd.frames or not size) or crowd.wait(0.2))
    finally:
        crowd.leave()
    if size and not crowd.frames:
        raise RuntimeError("the crowd was told nothing")
    return run.median_step_s(range(first, first + steps))


def monitor_cost(bench):
    """One run of the measured model; ratio: step time with the crowd over step time without; value: the hub's own time
    over the steps' time while the crowd is there."""
    with RunBox() as box, LiveRun(bench, box, "crowd", "checkpoint.interval=0", pp=2, batch=BATCH) as run:
        run.wait_for_step(2)
        for _ in range(bench.repeats(PAIRS)):
            steps = bench.repeats(STEPS)
            without = phase(run, 0, steps)
            busy, begin = run.status()["monitors"]["busy_s"], run.newest()
            crowded = phase(run, CROWD, steps)
            taken = run.newest() - begin
            bench.record("step without monitors, s", without)
            bench.record("step with 100 monitors, s", crowded)
            bench.record("ratio", crowded / without)
            bench.record("hub's share of a step", (run.status()["monitors"]["busy_s"] - busy) / (taken * crowded))
    return Row(bench.name, bench.median("hub's share of a step"), "of a step", bench.median("ratio"),
               f"no monitors: {bench.median('step without monitors, s'):.3f} s a step")

"""A run of the measured model that a benchmark watches and changes while it trains."""
import json, statistics, subprocess, time

from cluster import model_of, parsed
from measure import PATIENCE_S, end, output_of, start


class LiveRun:
    """`troupe launch` in the background, ended on leaving the context. Times are those that the run itself records."""

    def __init__(self, bench, box, name, *settings, pp, batch, model=None, steps=100000, env=None, where=(),
                 words=()):
        """`where`: the words before a command that runs where the launcher does; `words`: more of its own."""
        manifest = box.manifest(name, model or model_of(bench), steps=steps, pp=pp, threads=1, **batch)
        self.troupe, self.box, self.name, self.dir = (*where, bench.troupe), box, name, box.dir / name
        sets = [word for setting in settings for word in ("--set", setting)]
        self.launch = start(*self.troupe, "launch", manifest, *words, *sets, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True, env=env)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end(self.launch)

    def steps(self):
        """Rows of metrics.jsonl by step."""
        return {row["step"]: row for row in self.box.metrics(self.name)}

    def events(self, kind):
        path = self.dir / "events.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [row for row in map(parsed, lines) if row is not None and row["kind"] == kind]

    def status(self):
        return json.loads(output_of(*self.troupe, "status", self.dir, "--json"))

    def wait_for(self, what, test):
        """Waits for the first true value of test() and returns it."""
        deadline = time.monotonic() + PATIENCE_S
        while not (value := test()):
            if self.launch.poll() is not None:
                raise RuntimeError(f"waiting for {what}: troupe launch: exit {self.launch.returncode}: "
                                   f"{self.launch.stderr.read()[-2000:]}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"waited {PATIENCE_S} s for {what}")
            time.sleep(0.02)
        return value

    def newest(self):
        return max(self.steps(), default=0)

    def wait_for_step(self, step):
        while (newest := self.newest()) < step:
            self.wait_for(f"step {newest + 1}", lambda: self.newest() > newest)

    def train(self, count):
        """Waits until `count` more steps are committed."""
        self.wait_for_step(self.newest() + count)

    def next_event(self, kind, seen):
        """Waits for the next event of this kind after the first `seen`."""
        return self.wait_for(f"a {kind!r} event", lambda: self.events(kind)[seen:])[0]

    def median_step_s(self, steps):
        """Median time of those of these steps that are committed."""
        rows = self.steps()
        return statistics.median(rows[step]["step_s"] for step in steps if step in rows)

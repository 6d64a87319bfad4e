"""A browser without a window: chromium's DevTools protocol over a pair of pipes."""
import base64
import fcntl
import json
import os
import shutil
import signal
import sys
import tempfile
import time

# The browser reads commands from the first and writes to the second.
COMMANDS, ANSWERS = 3, 4


def high(end):
    """The end of a pipe under a number that is neither of the two above."""
    number = fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(end)
    return number


class Browser:
    def __init__(self, url, width, height):
        program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        if not program:
            sys.exit("needs chromium-headless-shell or chromium: apt-get install chromium-headless-shell")
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        (commands, self.to), (self.answers, answers) = (map(high, os.pipe()) for _ in range(2))
        quiet = [(os.POSIX_SPAWN_OPEN, n, "/dev/null", os.O_RDWR, 0) for n in (0, 1, 2)]
        self.pid = os.posix_spawn(
            program,
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
             "--remote-debugging-pipe", "--user-data-dir=" + self.profile.name],
            os.environ,
            file_actions=quiet + [(os.POSIX_SPAWN_DUP2, commands, COMMANDS), (os.POSIX_SPAWN_DUP2, answers, ANSWERS)],
            setpgroup=0)
        os.close(commands)
        os.close(answers)
        self.calls, self.session, self.buffered = 0, None, b""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url=url)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def call(self, method, **parameters):
        self.calls += 1
        message = {"id": self.calls, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read_message()
            if answer.get("id") != self.calls:
                continue
            if "error" in answer:
                sys.exit(f"{method}: {answer['error']}")
            return answer["result"]

    def read_message(self):
        while b"\0" not in self.buffered:
            got = os.read(self.answers, 1 << 20)
            if not got:
                sys.exit("the browser has ended")
            self.buffered += got
        message, _, self.buffered = self.buffered.partition(b"\0")
        return json.loads(message)

    def value_of(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        return answer["result"].get("value")

    def wait_for(self, expression, every=0.1):
        while self.value_of(f"Boolean({expression})") is not True:
            time.sleep(every)

    def picture(self, selector=None, margin=8):
        """A PNG of the window, or of an element, wherever it lies on the page."""
        options = {}
        if selector:
            x, y, width, height = self.value_of(
                f"(() => {{ const r = document.querySelector({json.dumps(selector)}).getBoundingClientRect(); "
                "return [r.x + scrollX, r.y + scrollY, r.width, r.height]; })()")
            options = {"captureBeyondViewport": True,
                       "clip": {"x": x - margin, "y": y - margin, "width": width + 2 * margin,
                                "height": height + 2 * margin, "scale": 1}}
        return base64.b64decode(self.call("Page.captureScreenshot", **options)["data"])

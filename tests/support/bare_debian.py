#!/usr/bin/env python3
"""Trains in an empty Debian: usage: bare_debian.py BUILD SUITE [MIRROR]

Makes a bundle of the build folder BUILD and, with mmdebstrap, a root of the Debian SUITE with the least that it has.
Takes the steps of launch/examples/container/Containerfile in it, and trains an example of the bundle there. Ends with
77 if it is not root, has no mmdebstrap or cannot reach the mirror.
"""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

TREE = pathlib.Path(__file__).resolve().parents[2]
CONTAINERFILE = TREE / "launch/examples/container/Containerfile"
SKIPPED = 77  # as gpu/presence.h has it
STEPS = 3
TRAIN = f"troupe launch /opt/troupe/examples/two_stages.toml --set run.max_steps={STEPS} --set run.dir=/runs/first"
# A container's file systems. The namespaces take them along when the command ends.
IN_ROOT = """
mount -t proc proc "$0/proc"
mount --rbind /sys "$0/sys"
mount --rbind /dev "$0/dev"
mount -t tmpfs -o size=256m tmpfs "$0/dev/shm"
exec chroot "$0" "$@"
"""


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


class Image:
    """A root in which the steps of a Containerfile are taken."""

    def __init__(self, root, context):
        self.root, self.context = root, context
        self.environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        self.folder = "/"
        self.command = []

    def run(self, words):
        print("+", shlex.join(words), flush=True)
        environment = [f"{name}={value}" for name, value in self.environment.items()]
        apart = ["unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child=KILL"]
        in_root = ["sh", "-e", "-c", IN_ROOT, self.root, "env", "-i", f"--chdir={self.folder}"]
        subprocess.run([*apart, *in_root, *environment, *words], check=True)

    def take(self, step):
        name, _, rest = step.partition(" ")
        if name == "COPY":
            source, target = rest.split()
            shutil.copytree(self.context / source, self.root / target.lstrip("/"), dirs_exist_ok=True)
        elif name == "ENV":
            variable, _, value = rest.partition("=")
            self.environment[variable] = re.sub(r"\$(\w+)", lambda match: self.environment[match[1]], value)
        elif name == "RUN":
            self.run(["/bin/sh", "-c", rest])
        elif name == "WORKDIR":
            (self.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
            self.folder = rest
        elif name == "CMD":
            self.command = json.loads(rest)
        elif name not in ("ARG", "FROM"):
            sys.exit(f"bare_debian: {CONTAINERFILE}: {name} is no step that this test knows")


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    build, suite, mirror = *sys.argv[1:3], (sys.argv[3:] or ["http://deb.debian.org/debian"])[0]
    if os.geteuid():
        skip("only root makes a root")
    if not shutil.which("mmdebstrap"):
        skip("no mmdebstrap: launch/install_packages mmdebstrap")
    try:
        urllib.request.urlopen(f"{mirror}/dists/{suite}/InRelease", timeout=20).close()
    except (urllib.error.URLError, OSError) as error:
        skip(f"{mirror} has no {suite} for us: {error}")
    with tempfile.TemporaryDirectory(prefix="troupe-bare-") as folder:
        root, bundle = pathlib.Path(folder, "root"), pathlib.Path(folder, "bundle")
        subprocess.run([TREE / "launch/make_bundle", build, bundle], check=True)
        # apt is in every Debian's image.
        make_root = ["mmdebstrap", "--quiet", "--variant=apt", "--format=directory", "--dpkgopt=force-unsafe-io"]
        subprocess.run([*make_root, suite, root, mirror], check=True)
        image = Image(root, bundle)
        text = re.sub(r"^#.*\n", "", CONTAINERFILE.read_text(), flags=re.MULTILINE)
        for step in text.replace("\\\n", " ").splitlines():
            image.take(step)
        image.run(image.command)
        image.run(["/bin/sh", "-c", TRAIN])
        lines = (root / "runs/first/metrics.jsonl").read_text().splitlines()
        if len(lines) != STEPS:
            sys.exit(f"bare_debian: {len(lines)} steps, not {STEPS}")
        print((root / "etc/debian_version").read_text().strip(), [json.loads(line)["loss"] for line in lines])


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Whether the places `path:line` `name` that CONTRIBUTING.md tells of are there: the line has the name."""
import re

from tree import ROOT, finish

PLACE = re.compile(r"`([\w./]+):(\d+)` `(\w+)`")


def main():
    faults = []
    for number, text in enumerate((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("\n"), start=1):
        for path, line, name in PLACE.findall(text):
            source = (ROOT / path).read_text(encoding="utf-8").split("\n") if (ROOT / path).exists() else []
            if int(line) > len(source) or name not in source[int(line) - 1]:
                now = [n for n, other in enumerate(source, start=1) if re.search(rf"\b{name}\(", other)]
                faults.append(f"CONTRIBUTING.md:{number}: {path}:{line} has no {name}; it stands in lines {now}")
    finish("places", faults)


main()

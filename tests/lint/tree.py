"""Code that the lint checks share: the files of the tree, and how a check ends."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("tensor", "schedules", "transport", "stages", "actors", "launch", "tests")


def files(*suffixes):
    """The tree's files with one of the suffixes, as paths relative to its root, in order."""
    found = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))
    return sorted(path.relative_to(ROOT) for path in found if path.suffix in suffixes)


def lines(path):
    """(number from 1, text) of each line of a file."""
    return list(enumerate((ROOT / path).read_text(encoding="utf-8").split("\n"), start=1))


def finish(name, faults):
    """Prints each fault, then the number of them; the exit code tells whether there were any."""
    for fault in faults:
        print(fault)
    print(f"{name}: {len(faults)} faults")
    sys.exit(1 if faults else 0)

#!/usr/bin/env python3
"""Checks the look of files: their length, the width of lines, and words that do not belong in a finished tree."""
import re

from tree import ROOT, files, finish, lines

MOST_LINES = {".h": 250, ".cpp": 400, ".cu": 400, ".py": 400, ".capnp": 250}
MOST_LINES_OF_TESTS = 400  # of any suffix: a header of theirs is code
MOST_COLUMNS = {".h": 100, ".cpp": 100, ".cu": 100, ".py": 120, ".capnp": 100}
MOST_LINES_OF_FUNCTION = 60
# Lines that begin in the first column, and no function.
NO_FUNCTION = re.compile(r"(namespace|class|struct|enum|union|template|extern|using|//|#|\}|$)")
SOURCES = tuple(MOST_LINES)
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK|placeholder|not (yet )?implemented)\b")
# A path that exists on one machine only; paths that every Debian system has are fine.
MACHINE_PATH = re.compile(r"(?<![\w.])/(home|root|work|mnt|Users)/\w")
# The first words of a comment that leans on the declaration before it: an editor shows one at a time.
LEANS = re.compile(r"\s*/// (Of|The same|Those|As) ")
DOC = re.compile(r"\s*///")
THIS = ROOT / "tests/lint/check_text.py"


def faults_of_file(path):
    text = lines(path)
    count = len(text) - 1  # the last line ends the file
    most = MOST_LINES.get(path.suffix)
    if most and path.parts[0] == "tests":
        most = MOST_LINES_OF_TESTS
    if most and count > most:
        yield f"{path}:{count}: {count} lines, more than {most}: split it by what its parts do"
    if text[-1][1]:
        yield f"{path}:{count + 1}: the last line does not end"
    before = ""
    for number, line in text:
        leans = path.suffix == ".h" and not DOC.match(before) and LEANS.match(line)
        before = line
        where = f"{path}:{number}: "
        if leans:
            yield where + f'"{leans[1]} ...": a comment stands alone: say of what'
        if len(line) > MOST_COLUMNS.get(path.suffix, len(line)):
            yield where + f"{len(line)} columns, more than {MOST_COLUMNS[path.suffix]}"
        if path.suffix in SOURCES and not line.isascii():
            yield where + "a character that is not ASCII"
        if line != line.rstrip() and path.suffix != ".md":
            yield where + "space at the end of the line"
        if UNFINISHED.search(line):
            yield where + f'"{UNFINISHED.search(line)[0]}": finish it, or say what is'
        if MACHINE_PATH.search(line):
            yield where + "an absolute path of one machine"


def faults_of_functions(path):
    begin = None  # the line in which the function begins that the last line in the first column may be of
    for number, line in lines(path):
        if line == "}" and begin and number - begin >= MOST_LINES_OF_FUNCTION:
            yield f"{path}:{begin}: {number - begin + 1} lines in a function, more than {MOST_LINES_OF_FUNCTION}"
        if line and not line.startswith(" "):
            begin = None if NO_FUNCTION.match(line) or line.endswith(";") else number


def main():
    faults = []
    for path in files(*SOURCES, ".md", ".txt", ".toml", ".cmake", ".sh"):
        if ROOT / path != THIS:
            faults += faults_of_file(path)
        if path.suffix in (".h", ".cpp", ".cu") and path.parts[0] != "tests":
            faults += faults_of_functions(path)
    finish("text", faults)


main()

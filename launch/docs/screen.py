"""What a program shows on a terminal: it has a terminal of its own, whose characters are read."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

# Places (CUP) are obeyed; looks and modes change no character.
ESCAPE = re.compile(r"\x1b\[([0-9;?]*)([@-~])")


def screen_of(command, columns, rows, until, seconds):
    """The lines that the command shows on a terminal of the size, as soon as one of them has `until` and so many
    seconds have passed; the command is then ended."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", LANG="C.UTF-8", LC_ALL="C.UTF-8")
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.execvp(command[0], command)
    cells = [[" "] * columns for _ in range(rows)]
    x = y = 0
    rest, begin = b"", time.monotonic()
    while True:
        if select.select([terminal], [], [], 0.5)[0]:
            rest += os.read(terminal, 1 << 16)
            text, rest = complete(rest)
            x, y = show(text, cells, x, y)
        lines = ["".join(row).rstrip() for row in cells]
        if time.monotonic() - begin > seconds and any(until in line for line in lines):
            break
    os.kill(pid, signal.SIGTERM)
    os.close(terminal)
    os.waitpid(pid, 0)
    return lines


def complete(data):
    """The text of what has come but for a character or an escape sequence that is not complete, and these."""
    cut = len(data)
    last = data.rfind(b"\x1b")
    if last >= 0 and not re.match(rb"\x1b\[[0-9;?]*[@-~]", data[last:]):
        cut = last
    for back in range(4):
        try:
            return data[:cut - back].decode(), data[cut - back:]
        except UnicodeDecodeError:
            continue
    raise ValueError("the program's output is no UTF-8")


def show(text, cells, x, y):
    at = 0
    while at < len(text):
        escape = ESCAPE.match(text, at)
        if escape:
            if escape[2] == "H":
                y, x = (int(number) - 1 for number in escape[1].split(";"))
            at = escape.end()
            continue
        if text[at] >= " " and y < len(cells) and x < len(cells[y]):
            cells[y][x] = text[at]
            x += 1
        at += 1
    return x, y

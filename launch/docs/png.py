"""Makes a PNG file small: at most 256 colours, which is enough for a page of text and lines."""
import collections
import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunks(png):
    at = len(SIGNATURE)
    while at < len(png):
        size, name = struct.unpack(">I4s", png[at:at + 8])
        yield name, png[at + 8:at + 8 + size]
        at += size + 12


def chunk(name, body):
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def predicted(kind, left, above, corner):
    """What a filter of the kind adds to a byte, from the bytes of the pixels around it."""
    if kind < 3:
        return (0, left, above)[kind]
    if kind == 3:
        return (left + above) // 2
    to_left, to_above, to_corner = abs(above - corner), abs(left - corner), abs(left + above - 2 * corner)
    if to_left <= to_above and to_left <= to_corner:
        return left
    return above if to_above <= to_corner else corner


def pixels(png):
    """(width, the rows as bytes, bytes a pixel) of a PNG of 8 bits a channel that is not interlaced."""
    parts = collections.defaultdict(bytes)
    for name, body in chunks(png):
        parts[name] += body
    width, height, depth, colours, _, _, interlaced = struct.unpack(">IIBBBBB", parts[b"IHDR"])
    if depth != 8 or colours not in (2, 6) or interlaced:
        raise ValueError("not a PNG of red, green and blue")
    size = 3 if colours == 2 else 4
    data, stride = zlib.decompress(parts[b"IDAT"]), width * size
    rows, above = [], bytes(stride)
    for y in range(height):
        kind, row = data[y * (stride + 1)], bytearray(data[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride if kind else 0):
            left, corner = (row[i - size], above[i - size]) if i >= size else (0, 0)
            row[i] = (row[i] + predicted(kind, left, above[i], corner)) & 255
        rows.append(bytes(row))
        above = row
    return width, rows, size


def palette_of(counts):
    """{colour: its number in the palette} and the palette: the most frequent colours, and of others those that are far
    enough from all before, so that a rare colour that looks like no other stays."""
    distance = 0
    while True:
        palette, index = [], {}
        for colour, _ in counts.most_common():
            apart = [sum((a - b) ** 2 for a, b in zip(colour, other)) for other in palette] if distance else []
            near = min(apart, default=distance + 1)
            index[colour] = len(palette) if near > distance else apart.index(near)
            if near > distance:
                palette.append(colour)
            if len(palette) > 256:
                break
        if len(palette) <= 256:
            return index, palette
        distance = 2 * distance + 48


def smaller(png):
    """The same picture with at most 256 colours."""
    width, rows, size = pixels(png)
    coloured = [[row[i:i + 3] for i in range(0, width * size, size)] for row in rows]
    index, palette = palette_of(collections.Counter(colour for row in coloured for colour in row))
    body = b"".join(b"\0" + bytes(index[colour] for colour in row) for row in coloured)
    head = struct.pack(">IIBBBBB", width, len(rows), 8, 3, 0, 0, 0)
    return SIGNATURE + b"".join((chunk(b"IHDR", head), chunk(b"PLTE", b"".join(palette)),
                                 chunk(b"IDAT", zlib.compress(body, 9)), chunk(b"IEND", b"")))

"""Server-sent events: bytes in, the text of each `data:` out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def data_of(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The data of each event as it is complete, without the rest of the event; comments are left out.

    Lines end by LF, CRLF or CR. Data over several lines is joined by LF, but a line that looks whole (from `{` to `}`,
    or `[DONE]`) goes out at once: some servers send no blank line between events.
    """
    held: list[bytes] = []
    for line in _lines(pieces):
        if not line:
            if held:
                yield b"\n".join(held)
                held.clear()
        elif line.startswith(b"data:"):
            data = line[6:] if line[5:6] == b" " else line[5:]
            if not held and (data == b"[DONE]" or (data[:1] == b"{" and data[-1:] == b"}")):
                yield data
            else:
                held.append(data)
    if held:
        yield b"\n".join(held)


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        if b"\r" in piece:
            # A CR at the very end may be half of a CRLF; two blank lines in place of one do no harm.
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = (rest + piece if rest else piece).split(b"\n")
        rest = lines.pop()
        yield from lines
    if rest:
        yield rest

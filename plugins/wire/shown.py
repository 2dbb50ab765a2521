"""A text while it streams, piece by piece."""

from __future__ import annotations

from hermes.kernel.messages import clean


class Shown:
    """One text as it streams; halves of a surrogate pair that come in two pieces are joined first."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._half = ""

    def add(self, piece: str) -> str:
        self.pieces.append(piece)
        if piece.isascii() and not self._half:
            return piece
        piece, self._half = self._half + piece, ""
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            piece, self._half = piece[:-1], piece[-1]
        return clean(piece)

    def whole(self) -> str:
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return clean(self.pieces[0]) if self.pieces else ""

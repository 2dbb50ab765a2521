from __future__ import annotations

from pathlib import Path

from hermes.kernel.sessions import SessionStore
from hermes.plugins.stores.sqlite.store import SqliteStore
from hermes.testing.store_conformance import StoreConformance
from hermes.testing.store_reference import SetClock


class TestSqliteStore(StoreConformance):
    def open_store(self, directory: Path, clock: SetClock) -> SessionStore:
        return SqliteStore(directory / "sessions.db", clock=clock, sync="normal")

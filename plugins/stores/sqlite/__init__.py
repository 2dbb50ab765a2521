"""The session store that ships: one SQLite file in the home of hermes. Nothing is opened before `open_store`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.hookspecs import hookimpl

if TYPE_CHECKING:
    from hermes.kernel.config.settings import SessionSettings
    from hermes.kernel.sessions import SessionStore, StoreFactory

FILE_NAME = "sessions.db"


class SqliteStores:
    """Opens `sessions.path`, or `sessions.db` in the home."""

    name = "sqlite"

    def open_store(self, settings: SessionSettings, home: Path) -> SessionStore:
        """Raises StoreError when the file cannot be opened or created."""
        from hermes.plugins.stores.sqlite.store import SqliteStore

        path = Path(settings.path).expanduser() if settings.path else home / FILE_NAME
        return SqliteStore(path.absolute(), sync=settings.sync, keep_days=settings.keep_days)


@hookimpl
def register_session_stores() -> Sequence[StoreFactory]:
    return [SqliteStores()]

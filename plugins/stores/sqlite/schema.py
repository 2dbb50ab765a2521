"""The tables, as the steps that lead from an empty file to this version; `PRAGMA user_version` counts the steps done.

A step that has been released is never edited: add another. `sessions.key` is what the other tables hold, since it is
short. What grows (bodies, results, turn states) stands last in its row or in a table of its own, so that the small
rows that each commit updates stay small.
"""

from __future__ import annotations

APPLICATION_ID = 0x48524D53
"""In the file's header: "HRMS"."""

_FIRST = (
    """CREATE TABLE sessions (
        key INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, title TEXT NOT NULL, created REAL NOT NULL,
        updated REAL NOT NULL, directory TEXT NOT NULL, model TEXT NOT NULL, source TEXT NOT NULL, parent TEXT,
        parent_call TEXT, end_reason TEXT NOT NULL DEFAULT '', turns INTEGER NOT NULL DEFAULT 0,
        messages INTEGER NOT NULL DEFAULT 0, last_place INTEGER NOT NULL DEFAULT 0, holder TEXT)""",
    "CREATE INDEX sessions_parent ON sessions (parent) WHERE parent IS NOT NULL",
    """CREATE TABLE epochs (
        session INTEGER NOT NULL, number INTEGER NOT NULL, why TEXT NOT NULL, time REAL NOT NULL, tools TEXT NOT NULL,
        system TEXT NOT NULL, PRIMARY KEY (session, number)) WITHOUT ROWID""",
    # reason '': the turn runs, or its process died
    """CREATE TABLE turns (
        session INTEGER NOT NULL, number INTEGER NOT NULL, started REAL NOT NULL, ended REAL,
        iterations INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0, reason TEXT NOT NULL DEFAULT '',
        answer TEXT, PRIMARY KEY (session, number)) WITHOUT ROWID""",
    """CREATE TABLE turn_states (
        session INTEGER NOT NULL, number INTEGER NOT NULL, state TEXT NOT NULL,
        PRIMARY KEY (session, number)) WITHOUT ROWID""",
    # place: order in the conversation, spaced. superseded_by: NULL while live, else the first row that took its place,
    # minus the turn that did it when none took it. AUTOINCREMENT: the search index knows rows by id, so an id is never
    # given out again.
    """CREATE TABLE messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL, turn INTEGER NOT NULL, place INTEGER NOT NULL,
        superseded_by INTEGER, role TEXT NOT NULL, origin TEXT NOT NULL, time REAL NOT NULL, call_ids TEXT,
        body TEXT NOT NULL)""",
    "CREATE INDEX messages_live ON messages (session, superseded_by, place)",
    """CREATE TABLE calls (
        session INTEGER NOT NULL, id TEXT NOT NULL, turn INTEGER NOT NULL, name TEXT NOT NULL, status TEXT NOT NULL,
        child TEXT, started REAL NOT NULL, finished REAL, arguments TEXT NOT NULL, result TEXT,
        UNIQUE (session, id))""",
    """CREATE TABLE state (
        session INTEGER NOT NULL, key TEXT NOT NULL, expires REAL, value TEXT NOT NULL,
        PRIMARY KEY (session, key)) WITHOUT ROWID""",
    # taken_by: NULL while waiting, 0 when given back to the caller, else the message that holds it
    """CREATE TABLE inbox (
        id INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL, taken_by INTEGER, kind TEXT NOT NULL,
        time REAL NOT NULL, parts TEXT NOT NULL)""",
    "CREATE INDEX inbox_waiting ON inbox (session, taken_by)",
    """CREATE TABLE outcomes (
        id INTEGER PRIMARY KEY, session INTEGER NOT NULL, turn INTEGER NOT NULL, outcome TEXT NOT NULL)""",
    "CREATE INDEX outcomes_turn ON outcomes (session, turn)",
    f"PRAGMA application_id = {APPLICATION_ID}",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_FIRST,)

TABLES_OF_A_SESSION = ("outcomes", "inbox", "state", "calls", "messages", "turn_states", "turns", "epochs")

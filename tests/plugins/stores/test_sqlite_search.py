from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.kernel.effects import Append
from hermes.kernel.messages import Message, Text, ToolResult
from hermes.plugins.stores.sqlite.query import parse, spread
from hermes.plugins.stores.sqlite.store import SqliteStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "s.db", sync="normal")
    yield store
    store.close()


def write(store: SqliteStore, *texts: str, parent: str | None = None) -> str:
    log = store.open(store.create(directory="/", model="m", parent=parent))
    messages = tuple(Message("user", (Text(text),)) for text in texts)
    log.record(log.begin_turn(None), [Append(messages)], iterations=0, attempts=0)
    return log.id


def found(store: SqliteStore, query: str) -> list[str]:
    texts = {m.id: m.message.text for i in store.list(children=True) for m in store.messages(i.id)}
    return sorted(texts[hit.message_id] for hit in store.search(query, limit=50))


_ORDINARY = [
    "it's", "gateway/run.py", "user@host", "50%", "chat-send", "c++", "issue:123", "foo AND", '"unclosed', "*", "NEAR(",
    ".", ";", "a(b", "-x", "", "node.js*", "OR", "OR OR", "foo OR", '""', '"" x', "a\0b", "{x}", "^start", "x:y z",
    "+", "NOT", "\ud800", "%", "_", "\\", '" "', "text:", "words", "(", ")", "'", "a AND AND b",
]  # fmt: skip


@pytest.mark.parametrize("query", _ORDINARY)
def test_B020_ordinary_text_is_never_a_syntax_error(store: SqliteStore, query: str) -> None:
    write(store, "nothing here")
    assert store.search(query, limit=5) is not None


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("it's late", "it's"), ("see gateway/run.py", "gateway/run.py"), ("mail user@host", "user@host"),
        ("about 50% of it", "50%"), ("press chat-send now", "chat-send"), ("C++ and Rust", "c++"),
        ("fix issue:123", "issue:123"), ("some foo", "foo AND"), ("an unclosed thing", '"unclosed'),
        ("the NEAR( call", "NEAR("), ("f a(b)", "a(b"), ("run -x", "-x"), ("with node.js inside", "node.js*"),
        ("2 * 3", "*"), ("one; two", ";"), ("deployment", "deplo*"), ("mid-sentence", "entenc"), ("100% sure", "100%"),
        ("Straße", "straße"), ("café", "cafe"), ("a\\b", "\\"), ("under_score", "_score"),
    ],
)  # fmt: skip
def test_B020_what_was_typed_is_found(store: SqliteStore, text: str, query: str) -> None:
    write(store, text, "something else")
    assert found(store, query) == [text]


def test_words_are_joined_and_OR_divides_alternatives(store: SqliteStore) -> None:
    write(store, "red fox", "red hen", "blue hen")
    assert found(store, "red hen") == ["red hen"]
    assert found(store, "fox OR blue") == ["blue hen", "red fox"]
    assert found(store, '"hen red"') == []
    assert found(store, "hen red") == ["red hen"]


_CJK = [
    "…的聊天记录记忆断裂问题…",
    "修改youer服务端的计划",
    "昨晚秃发了",
    "100%记忆",
    "カタカナのテスト",
    "한국어 검색 시험",
    "広西 桂林",
]


@pytest.mark.parametrize(
    ("query", "row"),
    [
        ("记忆断裂", 0), ("断裂", 0), ("断裂*", 0), ("youer", 1), ("youer服务端", 1), ("昨晚", 2), ("昨晚*", 2),
        ("秃发", 2),
        ("100%记忆", 3), ("カナ", 4), ("テスト", 4), ("검색", 5), ("국어", 5), ("桂林 OR 漓江", 6), ("裂", 0),
        ('"聊天记录"', 0),
    ],
)  # fmt: skip
def test_B021_han_kana_and_hangul_are_found_in_any_length(store: SqliteStore, query: str, row: int) -> None:
    write(store, *_CJK)
    assert _CJK[row] in found(store, query)
    if row != 0 or "记忆" not in query:
        assert len(found(store, query)) == 1


def test_B021_characters_out_of_order_are_not_a_hit(store: SqliteStore) -> None:
    write(store, "断裂记忆")
    assert found(store, "忆断") == []


def test_B021_decomposed_hangul_and_composed_are_the_same(store: SqliteStore) -> None:
    write(store, "한국어")
    assert found(store, "한국") == ["한국어"]


@given(st.text(alphabet=st.sampled_from("記憶断裂かなカナ한글 ab"), max_size=12))
@settings(max_examples=200, deadline=None)
def test_every_piece_of_a_run_is_a_token_of_its_row(text: str) -> None:
    row = spread(text).split()
    for word in text.split():
        for size in (1, 2):
            for start in range(len(word) - size + 1):
                piece = word[start : start + size]
                if not any(c.isascii() for c in piece):
                    assert piece in row


@given(st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_query_is_an_expression_that_fts5_takes(text: str) -> None:
    parsed = parse(text)
    if parsed and parsed.expression:
        connection = sqlite3.connect(":memory:")
        connection.execute("CREATE VIRTUAL TABLE words USING fts5 (text, content = '')")
        connection.execute("SELECT rowid FROM words WHERE words MATCH ?", (parsed.expression,)).fetchall()
        connection.close()


def test_delegated_sessions_and_the_own_conversation_are_left_out(store: SqliteStore) -> None:
    top = write(store, "heron one")
    child = write(store, "heron two", parent=top)
    other = write(store, "heron three")
    assert {hit.session.id for hit in store.search("heron", limit=5)} == {top, other}
    for inside in (top, child):
        assert {hit.session.id for hit in store.search("heron", limit=5, exclude=inside)} == {other}


def test_hits_behind_a_thousand_hidden_ones_are_reached(store: SqliteStore) -> None:
    hidden = write(store, *["heron"] * 1000)
    shown = write(store, "a much longer text about a heron that therefore ranks far lower than all of the others")
    assert [hit.session.id for hit in store.search("heron", limit=5, exclude=hidden)] == [shown]


def test_the_snippet_shows_the_word_in_its_place(store: SqliteStore) -> None:
    write(store, "before " * 50 + "the Heron flies" + " after" * 50)
    (hit,) = store.search("heron", limit=1)
    assert ">>>Heron<<< flies" in hit.snippet
    assert len(hit.snippet) < 250
    assert hit.role == "user"


def test_a_deleted_session_leaves_no_word_in_the_index(store: SqliteStore, tmp_path: Path) -> None:
    gone, kept = write(store, "heron secret"), write(store, "heron")
    assert len(store.search("heron", limit=5)) == 2
    store.delete(gone)
    assert [hit.session.id for hit in store.search("heron", limit=5)] == [kept]
    with sqlite3.connect(tmp_path / "s-search.db") as connection:
        query = "SELECT count(*) FROM words WHERE words MATCH ?"
        assert connection.execute(query, ("secret",)).fetchone() == (0,)
        connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")
    connection.close()


@pytest.mark.parametrize("damage", ["garbage", "truncated", "no table", "shadow table", "other format", "directory"])
def test_B084_a_damaged_index_is_made_again_and_no_write_notices(tmp_path: Path, damage: str) -> None:
    path, index = tmp_path / "s.db", tmp_path / "s-search.db"
    store = SqliteStore(path)
    write(store, "heron", *[f"word{n}" for n in range(300)])
    if damage != "directory":
        assert len(store.search("heron", limit=5)) == 1
    store.close()
    if damage == "garbage":
        index.write_bytes(random.Random(1).randbytes(20_000))
    elif damage == "truncated":
        index.write_bytes(index.read_bytes()[:5000])
    elif damage == "directory":
        index.mkdir()
    else:
        statement = {
            "no table": "DROP TABLE mark",
            "shadow table": "DELETE FROM words_data",
            "other format": "PRAGMA user_version = 7",
        }[damage]
        connection = sqlite3.connect(index, isolation_level=None)
        connection.execute("PRAGMA writable_schema = 1")
        connection.execute(statement)
        connection.close()
    store = SqliteStore(path)
    write(store, "a second heron")
    assert found(store, "heron") == ["a second heron", "heron"]
    assert found(store, "word177") == ["word177"]
    store.close()


def test_B028_text_from_before_a_compression_stays_searchable(store: SqliteStore) -> None:
    from hermes.kernel.effects import Rewrite

    log = store.open(store.create(directory="/", model="m"))
    turn = log.begin_turn(None)
    log.record(turn, [Append((Message("user", (Text("the heron"),)),))], iterations=0, attempts=0)
    summary = Message("user", (Text("a summary"),), origin="summary")
    log.record(turn, [Rewrite(0, 1, (summary,), "compression", new_epoch=True)], iterations=0, attempts=0)
    assert store.find(log.id) == log.id
    assert log.load().messages == (summary,)
    assert [hit.session.id for hit in store.search("heron", limit=5)] == [log.id]
    assert [m.superseded for m in store.messages(log.id)] == [True, False]


def test_tool_results_are_searched_and_images_do_no_harm(store: SqliteStore) -> None:
    log = store.open(store.create(directory="/", model="m"))
    results = ToolResult("c", "ok", (Text("the needle"),))
    log.record(log.begin_turn(None), [Append((Message("tool", (results,)),))], iterations=0, attempts=0)
    (hit,) = store.search("needle", limit=5)
    assert hit.role == "tool"

"""Who is asked for credentials and where the request goes: environment, profile, keys, nobody; and the signature."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes.kernel.errors import ProviderError
from hermes.plugins.wire.bedrock_converse.sdk import _may_be_on_ec2, _region
from hermes.testing import ScriptedServer, text
from hermes.testing.scripted_server import Request

SECRET = "wJalrXUtnFEMI/K7MDENG"


@pytest.fixture
def unkeyed(scripted: ScriptedServer, new_target: Any, new_caller: Any) -> Any:
    """Calls the scripted server without a key of its own."""
    scripted.add(text("hi"))
    return new_caller(new_target(scripted.url_for("bedrock_converse"), api_key=""))


@pytest.fixture
def signed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session-1")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")


def signature(request: Request, secret: str) -> tuple[str, str]:
    """What is signed and what should be: Signature Version 4 by its specification, from what the server received."""
    fields = dict(part.strip().split("=", 1) for part in request.headers["authorization"].partition(" ")[2].split(","))
    _, date, region, service, end = fields["Credential"].split("/")
    canonical = "\n".join(
        [
            "POST",
            request.path.replace("%", "%25"),
            "",
            *(f"{name}:{request.headers[name]}" for name in fields["SignedHeaders"].split(";")),
            "",
            fields["SignedHeaders"],
            hashlib.sha256(request.raw).hexdigest(),
        ]
    )
    scope = "/".join([date, region, service, end])
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{secret}".encode()
    for word in (date, region, service, end):
        key = hmac.digest(key, word.encode(), "sha256")
    told = "\n".join(["AWS4-HMAC-SHA256", request.headers["x-amz-date"], scope, digest])
    return fields["Signature"], hmac.digest(key, told.encode(), "sha256").hex()


def test_credentials_of_the_environment_sign_the_bytes_that_are_sent(
    scripted: ScriptedServer, unkeyed: Any, signed_in: None
) -> None:
    assert unkeyed().text == "hi"
    request = scripted.requests[0]
    sent, right = signature(request, SECRET)
    assert sent == right
    assert "AKIAEXAMPLE" in request.headers["authorization"]
    assert "/eu-central-1/bedrock/" in request.headers["authorization"]
    assert request.headers["x-amz-security-token"] == "session-1"


def test_a_profile_of_the_config_file_is_used_with_its_region(
    scripted: ScriptedServer, unkeyed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config"
    config.write_text(
        f"[profile work]\nregion = ap-south-1\naws_access_key_id = AKIAWORK\naws_secret_access_key = {SECRET}\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert unkeyed().text == "hi"
    sent, right = signature(scripted.requests[0], SECRET)
    assert sent == right
    assert "AKIAWORK" in scripted.requests[0].headers["authorization"]
    assert "/ap-south-1/" in scripted.requests[0].headers["authorization"]


def test_a_bedrock_key_of_the_target_wins_and_needs_neither_credentials_nor_a_region(
    scripted: ScriptedServer, new_target: Any, new_caller: Any, signed_in: None
) -> None:
    scripted.add(text("hi"))
    new_caller(new_target(scripted.url_for("bedrock_converse"), api_key="key-9"))()
    assert scripted.requests[0].headers["authorization"] == "Bearer key-9"
    assert "x-amz-security-token" not in scripted.requests[0].headers


@pytest.mark.parametrize("api_key", ["", "key-9"])
def test_a_header_of_the_user_stands_in_place_of_a_key_and_of_a_signature(
    scripted: ScriptedServer, new_target: Any, new_caller: Any, api_key: str
) -> None:
    scripted.add(text("hi"))
    headers = {"authorization": "Basic mine"}
    new_caller(new_target(scripted.url_for("bedrock_converse"), api_key=api_key, headers=headers))()
    assert scripted.requests[0].headers["authorization"] == "Basic mine"


def test_several_keys_of_one_address_are_each_sent_with_their_own_call(
    scripted: ScriptedServer, new_target: Any, new_caller: Any
) -> None:
    scripted.add(text("a"), text("b"))
    for key in ("key-1", "key-2"):
        new_caller(new_target(scripted.url_for("bedrock_converse"), api_key=key))()
    assert [r.headers["authorization"] for r in scripted.requests] == ["Bearer key-1", "Bearer key-2"]
    assert scripted.connections == 1


def test_without_credentials_the_person_is_told_what_to_set_and_nothing_is_sent(
    unkeyed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    with _metadata_service(monkeypatch) as asked, pytest.raises(ProviderError) as caught:
        unkeyed()
    assert caught.value.kind == "auth"
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_BEARER_TOKEN_BEDROCK"):
        assert name in str(caught.value)
    if not _may_be_on_ec2():
        assert asked == []  # elsewhere each look at the metadata service takes seconds


def test_who_signs_in_after_that_is_let_in_by_the_same_process(
    unkeyed: Any, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    with pytest.raises(ProviderError):
        unkeyed()
    request.getfixturevalue("signed_in")
    assert unkeyed().text == "hi"


def test_a_profile_that_is_not_there_is_named(unkeyed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(ProviderError, match="nobody") as caught:
        unkeyed()
    assert caught.value.kind == "auth"


def test_without_a_region_the_person_is_told_what_to_set(
    unkeyed: Any, signed_in: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_REGION")
    with pytest.raises(ProviderError, match="AWS_REGION") as caught:
        unkeyed()
    assert caught.value.kind == "bad_request"


def test_a_key_of_the_environment_is_never_sent_in_plain_text(
    scripted: ScriptedServer, unkeyed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "key-env")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    with pytest.raises(ProviderError, match="HTTPS"):
        unkeyed()
    assert scripted.connections == 0


def test_a_key_of_the_environment_is_sent_over_tls(
    new_target: Any, new_caller: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "key-env")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    with _tls_server(tmp_path, monkeypatch) as (port, received):
        reply = new_caller(new_target(f"https://localhost:{port}", api_key=""))(stream=False)
    assert reply.text == "hi"
    assert b"\r\nAuthorization: Bearer key-env\r\n" in received[0]


@pytest.mark.parametrize(
    ("base_url", "variable", "region"),
    [
        ("https://bedrock-runtime.eu-west-1.amazonaws.com", "us-east-1", "eu-west-1"),
        ("https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com/", "", "us-gov-west-1"),
        ("https://bedrock-runtime.cn-north-1.amazonaws.com.cn", "", "cn-north-1"),
        ("https://vpce-0a1-b.bedrock-runtime.us-west-2.vpce.amazonaws.com", "", "us-west-2"),
        ("https://gateway.example.com/bedrock-runtime.eu-west-1.x", "us-east-2", "us-east-2"),
        ("", "us-east-2", "us-east-2"),
        ("", "", None),
    ],
)
def test_the_region_is_that_of_the_host_else_of_the_environment(
    new_target: Any, monkeypatch: pytest.MonkeyPatch, base_url: str, variable: str, region: str | None
) -> None:
    monkeypatch.setenv("AWS_REGION", variable)
    assert _region(new_target(base_url, api_key="")) == region


# ---- Servers of one purpose -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def _metadata_service(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Stands for the metadata service of EC2 and notes who comes; it hangs up on everybody."""
    came: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://127.0.0.1:{listener.getsockname()[1]}/")

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    sock, address = listener.accept()
                    came.append(str(address))
                    sock.close()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield came
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


@contextlib.contextmanager
def _tls_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, list[bytes]]]:
    """Answers one call with a reply of Converse, under a certificate that this test trusts."""
    from hermes.plugins.wire.http.dialling import tls_context

    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("openssl is not installed: it makes the certificate")
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *files, *names]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "cert.pem"))
    tls_context.cache_clear()
    received: list[bytes] = []
    body = b'{"output":{"message":{"content":[{"text":"hi"}]}},"stopReason":"end_turn"}'
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            sock, _ = listener.accept()
            with context.wrap_socket(sock, server_side=True) as secure:
                received.append(secure.recv(65536))
                head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
                secure.sendall(head + body)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1], received
        thread.join(5)
    tls_context.cache_clear()

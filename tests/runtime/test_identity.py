from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from runtime.identity import BOOT_ID_PATH, Identity, IdentityError, Imds, boot_id, instance_id, is_instance_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.runtime.conftest import LogLines

ID = "i-0123456789abcdef0"
OTHER_ID = "i-0fedcba9876543210"
UNANSWERED = "metadata service does not know the instance"
Answer = bytes | list[bytes] | None


class Scripted:
    """A server that answers each request as its script says.

    Bytes are sent and the connection is closed; a list is dripped; None is silence until the server ends.
    """

    def __init__(self, script: Callable[[bytes], Answer], family: socket.AddressFamily = socket.AF_INET) -> None:
        host = "::1" if family == socket.AF_INET6 else "127.0.0.1"
        self._listener = socket.create_server((host, 0), family=family)
        self._script = script
        self._over = threading.Event()
        self.requests: list[bytes] = []
        self.port: int = self._listener.getsockname()[1]
        self.endpoint = f"http://[::1]:{self.port}" if family == socket.AF_INET6 else f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # the listener was closed: the end
            while True:
                client, _ = self._listener.accept()
                with client, contextlib.suppress(OSError):
                    self._answer(client)

    def _answer(self, client: socket.socket) -> None:
        request = b""
        while b"\r\n\r\n" not in request:
            request += client.recv(4_096)
        self.requests.append(request)
        answer = self._script(request)
        if answer is None:
            self._over.wait(30)
        for piece in [answer] if isinstance(answer, bytes) else answer or []:
            client.sendall(piece)
            if isinstance(answer, list):
                self._over.wait(0.2)

    def close(self) -> None:
        self._over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)


@contextlib.contextmanager
def scripted(script: Callable[[bytes], Answer], family: socket.AddressFamily = socket.AF_INET) -> Iterator[Scripted]:
    server = Scripted(script, family)
    try:
        yield server
    finally:
        server.close()


def answer(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def well_behaved(request: bytes) -> bytes:
    return answer(b"token") if request.startswith(b"PUT") else answer(ID.encode())


def ask(endpoint: str, **more: str) -> str | None:
    return Imds({"AWS_EC2_METADATA_SERVICE_ENDPOINT": endpoint, **more}).instance_id()


def reason(log_lines: LogLines) -> str:
    """Give the one reason that the log has."""
    (fields,) = log_lines.fields(UNANSWERED)
    assert len(log_lines.records) == 1
    return str(fields["reason"])


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


@pytest.mark.parametrize("text", ["i-0123abcd", ID])
def test_instance_ids_have_8_or_17_hex_digits(text: str) -> None:
    assert is_instance_id(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "i-",
        "i-0abc",
        "i-0123ABCD",
        "i-0123abcd\n",
        " i-0123abcd",
        "I-0123abcd",
        "i-0123abcde",
        f"{ID}0",
        "i-\u0660123abcd",
    ],
)
def test_other_texts_are_no_instance_ids(text: str) -> None:
    assert not is_instance_id(text)


def test_boot_id_is_the_kernels() -> None:
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", boot_id())
    assert boot_id() == boot_id(BOOT_ID_PATH)


def test_boot_id_may_come_from_another_file(tmp_path: Path) -> None:
    (tmp_path / "boot").write_text("  boot-7\n")
    assert boot_id(str(tmp_path / "boot")) == "boot-7"


@pytest.mark.parametrize("content", [b"", b"\n", b"x" * 65, b"a\nb", b"a\0b", b"\xff", "é".encode(), b"x" * 100_000])
def test_boot_id_file_with_something_else_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "boot").write_bytes(content)
    with pytest.raises(IdentityError, match=r"1 to 64 printable ASCII characters") as refused:
        boot_id(str(tmp_path / "boot"))
    assert str(tmp_path / "boot") in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_boot_id_file_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(IdentityError, match=r"nowhere: No such file or directory"):
        boot_id(str(tmp_path / "nowhere"))
    with pytest.raises(IdentityError, match=r"Is a directory"):
        boot_id(str(tmp_path))


@pytest.fixture
def tag(tmp_path: Path) -> Path:
    path = tmp_path / "board_asset_tag"
    path.write_text(f"{OTHER_ID}\n")
    return path


@pytest.fixture
def imds() -> Iterator[Scripted]:
    with scripted(well_behaved) as server:
        yield server


def test_setting_comes_before_everything(tag: Path, imds: Scripted) -> None:
    service = Imds({"AWS_EC2_METADATA_SERVICE_ENDPOINT": imds.endpoint})
    assert instance_id(" machine-7 ", asset_tag_path=str(tag), imds=service) == Identity("machine-7", "setting")
    assert imds.requests == []


@pytest.mark.parametrize("setting", [None, "", "  "])
def test_asset_tag_comes_before_the_metadata_service(tag: Path, imds: Scripted, setting: str | None) -> None:
    service = Imds({"AWS_EC2_METADATA_SERVICE_ENDPOINT": imds.endpoint})
    assert instance_id(setting, asset_tag_path=str(tag), imds=service) == Identity(OTHER_ID, "dmi")
    assert imds.requests == []


@pytest.mark.parametrize("content", [b"", b"Not Specified\n", b"\xff\xfe", b"i-0123ABCD"])
def test_asset_tag_that_is_no_instance_id_is_passed_over(tag: Path, imds: Scripted, content: bytes) -> None:
    tag.write_bytes(content)
    service = Imds({"AWS_EC2_METADATA_SERVICE_ENDPOINT": imds.endpoint})
    assert instance_id(None, asset_tag_path=str(tag), imds=service) == Identity(ID, "imds")


def test_machine_without_any_source_is_unknown(tmp_path: Path, log_lines: LogLines) -> None:
    service = Imds({"AWS_EC2_METADATA_DISABLED": "true"})
    assert instance_id(None, asset_tag_path=str(tmp_path / "none"), imds=service) == Identity(None, "unknown")
    assert log_lines.events() == ["metadata service not asked"]


@pytest.mark.parametrize("value", ["true", "TRUE", " True "])
def test_disabled_service_is_not_called(imds: Scripted, log_lines: LogLines, value: str) -> None:
    assert ask(imds.endpoint, AWS_EC2_METADATA_DISABLED=value) is None
    assert imds.requests == []
    assert log_lines.events() == ["metadata service not asked"]


@pytest.mark.parametrize("value", ["false", "", "1"])
def test_service_is_asked_unless_disabled_says_true(imds: Scripted, log_lines: LogLines, value: str) -> None:
    assert ask(imds.endpoint, AWS_EC2_METADATA_DISABLED=value) == ID
    assert log_lines.events() == []


def test_process_environment_is_used_if_no_other_is_given(imds: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", imds.endpoint)
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED", raising=False)
    assert Imds().instance_id() == ID


@pytest.mark.parametrize("suffix", ["", "/"])
def test_ipv6_endpoint_is_asked(suffix: str) -> None:
    with scripted(well_behaved, socket.AF_INET6) as server:
        assert ask(server.endpoint + suffix) == ID
        assert f"Host: [::1]:{server.port}\r\n".encode() in server.requests[0]


def test_proxy_is_never_used(imds: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(well_behaved) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.endpoint)
        assert ask(imds.endpoint, HTTP_PROXY=proxy.endpoint) == ID
        assert proxy.requests == []


def test_expired_token_is_replaced_once() -> None:
    def forgetful(request: bytes) -> bytes:
        if request.startswith(b"PUT"):
            return answer(f"token-{len(server.requests)}".encode())
        return answer(ID.encode()) if b"token-3" in request else answer(b"", "401 Unauthorized")

    with scripted(forgetful) as server:
        assert ask(server.endpoint) == ID
        assert [request[:3] for request in server.requests] == [b"PUT", b"GET", b"PUT", b"GET"]


def test_token_that_is_refused_twice_is_not_replaced_again(log_lines: LogLines) -> None:
    def refusing(request: bytes) -> bytes:
        return answer(b"token") if request.startswith(b"PUT") else answer(b"", "401 Unauthorized")

    with scripted(refusing) as server:
        assert ask(server.endpoint) is None
        assert len(server.requests) == 4
    assert "status 401" in reason(log_lines)


def test_refused_connection_is_unknown(log_lines: LogLines) -> None:
    assert ask(f"http://127.0.0.1:{free_port()}") is None
    assert "refused" in reason(log_lines)


@pytest.mark.parametrize(
    "endpoint",
    ["169.254.169.254", "https://127.0.0.1:1", "http://", "http://[::1", "http://127.0.0.1:http", "http://127.0.0.1:99999",
     "http://a b", "http://no-such-host.invalid", "http://" + "a" * 300, "ftp://x", "http://é\udcff"],
)  # fmt: skip
def test_malformed_or_unreachable_endpoint_is_unknown(log_lines: LogLines, endpoint: str) -> None:
    assert ask(endpoint) is None
    assert reason(log_lines)


def put(body: bytes) -> Callable[[bytes], Answer]:
    """Script a server whose answer to the token request is fine, and to the question is this."""
    return lambda request: answer(b"token") if request.startswith(b"PUT") else body


BAD_ANSWERS: dict[str, Callable[[bytes], Answer]] = {
    "html with status 200": lambda _: answer(b"<html>log in</html>"),
    "html for the id": put(answer(b"<!doctype html>" + b"x" * 200)),
    "huge": put(answer(ID.encode() + b"\n" * 1_000_000)),
    "huge head": put(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1_000_000),
    "many headers": put(b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 1_000),
    "garbage": lambda _: b"\x16\x03\x01\0\xff" * 100,
    "nothing": lambda _: b"",
    "cut short": put(b"HTTP/1.1 200 OK\r\nContent-Length: 19\r\n\r\n" + ID[:9].encode()),
    "bad chunk": put(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"),
    "another kind of id": put(answer(b"i-not-an-instance")),
    "forbidden": lambda _: answer(b"", "403 Forbidden"),
    "not found": put(answer(b"", "404 Not Found")),
    "id with status 404": put(answer(ID.encode(), "404 Not Found")),
    "token with a line break": lambda request: (
        answer(b"a\r\nX: y") if request.startswith(b"PUT") else answer(ID.encode())
    ),
    "token that is no text": lambda request: answer(b"\xff\0\n ") if request.startswith(b"PUT") else b"",
}


@pytest.mark.parametrize("script", BAD_ANSWERS.values(), ids=BAD_ANSWERS)
def test_bad_answer_is_unknown_and_leaves_one_log_line(script: Callable[[bytes], Answer], log_lines: LogLines) -> None:
    with scripted(script) as server:
        assert ask(server.endpoint) is None
    assert len(reason(log_lines)) < 300


def test_silent_server_is_given_up_after_a_second(log_lines: LogLines) -> None:
    with scripted(lambda _: None) as server:
        began = time.monotonic()
        assert ask(server.endpoint) is None
        assert 0.9 < time.monotonic() - began < 2
    assert "timed out" in reason(log_lines)


def test_dripping_server_is_given_up_after_three_seconds_and_leaves_no_thread(log_lines: LogLines) -> None:
    with scripted(lambda _: [bytes([byte]) for byte in answer(b"token" * 30)]) as server:
        began = time.monotonic()
        assert ask(server.endpoint) is None
        assert 2.5 < time.monotonic() - began < 4
        deadline = time.monotonic() + 10
        while any(thread.name == "imds" for thread in threading.enumerate()):
            assert time.monotonic() < deadline
    assert reason(log_lines) == "no whole answer within 3 s"


def test_http_client_is_imported_only_for_the_metadata_service(tag: Path) -> None:
    program = "import sys; from runtime import identity; identity.instance_id(None, asset_tag_path=sys.argv[1])"
    check = f"{program}; sys.exit('http.client' in sys.modules)"
    subprocess.run([sys.executable, "-c", check, str(tag)], check=True, timeout=30)


@pytest.fixture
def simulator(imds_simulator: Path, tmp_path: Path) -> Iterator[str]:
    """Run AWS's simulator with version 2 only and our instance id; give its endpoint."""
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"metadata": {"values": {"instance-id": ID}}}))
    port = free_port()
    command = [str(imds_simulator), "-I", "-n", "127.0.0.1", "-p", str(port), "-c", str(settings)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path) as process:
        try:
            assert status_without_token(port) == http.HTTPStatus.UNAUTHORIZED
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def status_without_token(port: int) -> int:
    deadline = time.monotonic() + 20
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/latest/meta-data/instance-id")
            return connection.getresponse().status
        except ConnectionError:
            assert time.monotonic() < deadline
        finally:
            connection.close()


def test_simulator_of_the_vendor_tells_the_instance(simulator: str, tmp_path: Path, log_lines: LogLines) -> None:
    service = Imds({"AWS_EC2_METADATA_SERVICE_ENDPOINT": simulator})
    assert instance_id(None, asset_tag_path=str(tmp_path / "none"), imds=service) == Identity(ID, "imds")
    assert log_lines.events() == []


def test_simulator_of_the_vendor_tells_the_region(simulator: str) -> None:
    assert Imds({"AWS_EC2_METADATA_SERVICE_ENDPOINT": simulator}).region() == "us-east-1"


def test_simulator_is_asked_past_a_proxy(simulator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    assert ask(simulator) == ID


def test_simulator_under_another_path_is_unknown(simulator: str, log_lines: LogLines) -> None:
    assert ask(f"{simulator}/elsewhere") is None
    assert "status" in reason(log_lines)

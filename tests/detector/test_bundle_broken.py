"""`bundle` when things are broken: it says what it could not get, and has the rest."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runtime.pages import Page, Server
from tests.detector.opened import INSTANCE, Log, alone, piped
from tests.detector.process import chipwarden, neuron_line

if TYPE_CHECKING:
    from collections.abc import Callable

DMA = "NeuronHasError_DMA_ERROR"


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


@pytest.fixture
def here(tmp_path: Path) -> list[str | Path]:
    return alone(tmp_path)


# When things are broken.


@pytest.mark.real
@pytest.mark.usefixtures("_dmesg_restricted")
def test_without_powers_it_tells_what_it_could_not_read_and_has_the_rest(tmp_path: Path) -> None:
    without = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"]
    opened = piped("--kubernetes", "off", "--listen", "127.0.0.1:1", "--state-dir", tmp_path, through=without)
    assert "permission denied (needs root with capability CAP_SYSLOG" in opened.missing()["kernel log"]
    assert "kernel_log.jsonl" not in opened.files
    assert opened.json("machine.json")["kernel_log_bytes"] is None
    assert {"settings.yaml", "rules.json", "state_dir.json"} <= set(opened.files)


@pytest.mark.parametrize("garbage", ["text", "binary", "pipe", "folder", "link", "none"])
def test_garbage_in_the_state_directory_is_shown_or_named(
    log: Log, here: list[str | Path], tmp_path: Path, garbage: str
) -> None:
    state = tmp_path / "state" / "state.json"
    state.parent.mkdir()
    (tmp_path / "shadow").write_text("root:hunter2")
    make: dict[str, Callable[[Path], None]] = {
        "pipe": os.mkfifo,
        "folder": os.mkdir,
        "link": lambda path: path.symlink_to("../shadow"),
        "none": lambda _: None,
    }
    if garbage in make:
        make[garbage](state)
    else:
        state.write_bytes({"text": b'{"v": 1, "from": "10.9.8.7"', "binary": b"\xff\x00\x01"}[garbage])
    (state.parent / "state.json.rejected-20261130T010203").write_text("x")
    (state.parent / os.fsdecode(b"odd\n\xff")).touch()
    log.say("benign")
    opened = piped(*here)
    told = " ".join(why for what, why in opened.missing().items() if what.startswith("state"))
    assert "state.json" in told
    names = [entry["name"] for entry in opened.json("state_dir.json")]
    assert "state.json.rejected-20261130T010203" in names
    assert (garbage in ("text", "binary")) == ("state.json" in opened.files)
    assert "hunter2" not in str(opened.files)
    if garbage == "text":
        assert opened.files["state.json"] == '{"v": 1, "from": "<ip-1>"'


def test_without_a_state_directory_or_a_log_there_are_still_the_settings(here: list[str | Path]) -> None:
    opened = piped(*here)
    assert {"state", "kernel log", "pages"} <= set(opened.missing())
    assert {"settings.yaml", "machine.json", "rules.json"} <= set(opened.files)


def test_a_rule_file_that_does_not_load_is_in_it_with_the_reason(
    log: Log, here: list[str | Path], tmp_path: Path
) -> None:
    rules = tmp_path / "mine.yaml"
    rules.write_text("apiVersion: chipwarden.io/v1\nrules: [}")
    log.say(neuron_line("DMA_ERROR", INSTANCE))
    opened = piped(*here, "--rules", rules, "--rules", "neuron", "--rules", "nosuch")
    assert opened.files["rules/1-mine.yaml"] == "apiVersion: chipwarden.io/v1\nrules: [}"
    assert [entry["loads"] for entry in opened.json("rules.json")] == [False, True, False]
    assert opened.json("kernel_log.json")["lines_by_reason"] == {DMA: 1}
    assert len([entry for entry in opened.manifest["missing"] if entry["what"] == "rules"]) == 2


@pytest.mark.parametrize("text", ["root:hunter2:19000:0:::", "apiVersion: v1\nhunter2: x", '{"hunter2": "plugin"}'])
def test_of_what_is_no_rule_file_only_size_and_checksum_are_in_it(
    log: Log, here: list[str | Path], tmp_path: Path, text: str
) -> None:
    log.say("benign")
    (tmp_path / "shadow").write_text(text)
    (tmp_path / "x.yaml").symlink_to("shadow")
    os.mkfifo(tmp_path / "pipe.yaml")
    opened = piped(*here, "--rules", tmp_path / "x.yaml", "--rules", tmp_path / "pipe.yaml")
    told, pipe = opened.json("rules.json")
    assert (told["loads"], told["bytes"], len(told["sha256"])) == (False, len(text), 64)
    assert "not a regular file" in pipe["why"]
    assert "hunter2" not in str(opened.files)


def test_a_flood_is_read_through_and_stays_small(log: Log, here: list[str | Path]) -> None:
    log.say(neuron_line("DMA_ERROR", INSTANCE), times=50_000)
    opened = piped(*here)
    assert opened.json("kernel_log.json")["lines_by_reason"] == {DMA: 50_000}
    assert len(opened.kernel_log()) < 150


def test_settings_that_are_refused_end_it_with_2() -> None:
    done = chipwarden("bundle", "--heartbeat", "soon", "--output", "-")
    assert done.returncode == 2
    assert "heartbeat" in done.stderr
    assert done.stdout == ""


# The API server.


def kubeconfig(folder: Path, port: int) -> dict[str, str]:
    path = folder / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": {"token": "canary-of-a-token"}}],
            }
        )
    )
    return {"KUBECONFIG": str(path)}


def test_the_own_node_is_in_it(log: Log, here: list[str | Path], tmp_path: Path) -> None:
    node = {
        "metadata": {"name": "node-of-mine", "annotations": {"chipwarden.io/clear": "all", "a": "hunter2"}},
        "status": {"conditions": [{"type": "NeuronHasError", "status": "True", "message": "on node-of-mine"}]},
    }
    log.say("benign")
    server = Server("127.0.0.1:0", {"/api/v1/nodes/node-of-mine": lambda: Page(200, "x", json.dumps(node).encode())})
    server.start()
    asked = [*here, "--kubernetes", "auto", "--node-name", "node-of-mine"]
    opened = piped(*asked, env=kubeconfig(tmp_path, server.port))
    server.close()
    found = opened.json("node.json")
    assert found["name"] == "<host-1>"
    assert found["annotations"] == {"chipwarden.io/clear": "all"}
    assert found["conditions"][0]["message"] == "on <host-1>"
    assert "canary-of-a-token" not in str(opened.files)


def test_an_api_server_that_hangs_costs_only_the_node(log: Log, here: list[str | Path], tmp_path: Path) -> None:
    log.say("benign")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        opened = piped(*here, "--kubernetes", "on", env=kubeconfig(tmp_path, silent.getsockname()[1]))
    assert time.monotonic() - began < 15
    assert "timed out" in opened.missing()["node"]
    assert "kernel_log.jsonl" in opened.files


def test_credentials_that_hang_cost_only_the_node(log: Log, here: list[str | Path], tmp_path: Path) -> None:
    log.say("benign")
    env = kubeconfig(tmp_path, 1)
    config = json.loads(Path(env["KUBECONFIG"]).read_text())
    config["users"][0]["user"] = {
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sleep", "args": ["15"]}
    }
    Path(env["KUBECONFIG"]).write_text(json.dumps(config))
    began = time.monotonic()
    opened = piped(*here, "--kubernetes", "on", env=env)
    assert time.monotonic() - began < 20
    assert opened.missing()["node"] == "the API server gave no answer within 6 s"

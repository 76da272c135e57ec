"""The detector's settings: each key, its variable, its flag and its default, as users rely on them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from detector.__main__ import main
from runtime.documents import load_yaml

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Key, variable, flag ("" = none), default, another value as text, and what that is.
SETTINGS: list[tuple[str, str, str, object, str, object]] = [
    ("kmsg", "CHIPWARDEN_KMSG", "--kmsg", "/dev/kmsg", "/host/kmsg", "/host/kmsg"),
    ("kmsgFollow", "CHIPWARDEN_KMSG_FOLLOW", "--kmsg-follow", False, "true", True),
    ("rules", "CHIPWARDEN_RULES", "--rules", ["neuron"], "nvidia", ["nvidia"]),
    ("stateDir", "CHIPWARDEN_STATE_DIR", "--state-dir", "/var/lib/chipwarden", "/x", "/x"),
    ("listen", "CHIPWARDEN_LISTEN", "--listen", "0.0.0.0:20257", "127.0.0.1:1", "127.0.0.1:1"),
    ("kubernetes", "CHIPWARDEN_KUBERNETES", "--kubernetes", "auto", "off", "off"),
    ("nodeName", "NODE_NAME", "--node-name", "", "ip-10-0-0-1", "ip-10-0-0-1"),
    ("instanceId", "CHIPWARDEN_INSTANCE_ID", "--instance-id", "", "i-00000000", "i-00000000"),
    ("kernelOnly", "CHIPWARDEN_KERNEL_ONLY", "--kernel-only", False, "true", True),
    ("bootIdFile", "CHIPWARDEN_BOOT_ID_FILE", "--boot-id-file", "/proc/sys/kernel/random/boot_id", "/x", "/x"),
    ("heartbeat", "CHIPWARDEN_HEARTBEAT", "--heartbeat", "5m", "90s", "90s"),
    ("acceleratedHardwareReady", "CHIPWARDEN_ACCELERATED_HARDWARE_READY", "", False, "true", True),
    ("recoveryEnabled", "ENABLE_RECOVERY", "--enable-recovery", False, "true", True),
    ("logFormat", "CHIPWARDEN_LOG_FORMAT", "--log-format", "auto", "json", "json"),
    ("logLevel", "CHIPWARDEN_LOG_LEVEL", "--log-level", "info", "debug", "debug"),
]
Shown = dict[str, object]


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Shown]:
    """Show the settings that result: `shown(*flags, VARIABLE=text)`."""
    for name in {name for _, name, *_ in SETTINGS} & os.environ.keys():
        monkeypatch.delenv(name)
    monkeypatch.delenv("CHIPWARDEN_CONFIG", raising=False)

    def show(*flags: str, **environ: str) -> Shown:
        with monkeypatch.context() as patch:
            for name, text in environ.items():
                patch.setenv(name, text)
            assert main(["run", "--print-settings", *flags]) == 0
        settings: Shown = load_yaml(capsys.readouterr().out.encode())
        return settings

    return show


DEFAULTS: Shown = {key: default for key, _, _, default, _, _ in SETTINGS}


def test_the_defaults_are_those_of_the_contract(shown: Callable[..., Shown]) -> None:
    assert shown() == DEFAULTS


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting[0])
def test_each_setting_is_taken_from_its_variable_its_flag_and_the_file(
    shown: Callable[..., Shown], tmp_path: Path, setting: tuple[str, str, str, object, str, object]
) -> None:
    key, variable, flag, _, text, value = setting
    assert shown(**{variable: text}) == DEFAULTS | {key: value}
    if flag:
        assert shown(flag, text) == DEFAULTS | {key: value}
    (tmp_path / "config.yaml").write_text(f"{key}: {'[nvidia]' if key == 'rules' else text}\n")
    assert shown("--config", str(tmp_path / "config.yaml")) == DEFAULTS | {key: value}
    assert shown(CHIPWARDEN_CONFIG=str(tmp_path / "config.yaml")) == DEFAULTS | {key: value}


def test_flags_go_before_the_environment_and_that_before_the_file(shown: Callable[..., Shown], tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("kmsg: /file\nstateDir: /file\nnodeName: file\n")
    settings = shown(
        *("--config", str(tmp_path / "config.yaml"), "--kmsg", "/flag"),
        CHIPWARDEN_KMSG="/environment",
        CHIPWARDEN_STATE_DIR="/environment",
    )
    changed = {"kmsg": "/flag", "stateDir": "/environment", "nodeName": "file"}
    assert settings == DEFAULTS | changed


def test_several_rule_sets_are_a_flag_repeated_or_a_list_with_commas(shown: Callable[..., Shown]) -> None:
    assert shown("--rules", "neuron", "--rules", "efa")["rules"] == ["neuron", "efa"]
    assert shown(CHIPWARDEN_RULES="neuron, efa")["rules"] == ["neuron", "efa"]


def test_switches_need_no_value(shown: Callable[..., Shown]) -> None:
    settings = shown("--kernel-only", "--enable-recovery", "--kmsg-follow")
    assert settings == DEFAULTS | {"kernelOnly": True, "recoveryEnabled": True, "kmsgFollow": True}


def test_words_that_yaml_reads_as_switches_mean_what_they_say(shown: Callable[..., Shown], tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("kubernetes: off\nkernelOnly: on\n")
    settings = shown("--config", str(tmp_path / "config.yaml"))
    assert (settings["kubernetes"], settings["kernelOnly"]) == ("off", True)


@pytest.mark.parametrize(
    ("yaml", "says"),
    [
        ("heartbeet: 5m", "unknown key 'heartbeet' (did you mean 'heartbeat'?)"),
        ("kernelOnly: 'yes'", "kernelOnly: expected `bool`, got `str`, got 'yes' (allowed: true, false)"),
        ("heartbeat: 300", "heartbeat: 300 is not a duration"),
        ("heartbeat: 1ms", "heartbeat: 1ms is too short or too long (allowed: 1s to 1d)"),
        ("kubernetes: maybe", "(allowed: auto, on, off)"),
        ("rules: []", "rules: expected `array` of length >= 1"),
        ("stateDir: ''", "stateDir: expected `str` of length >= 1"),
    ],
)
def test_a_mistake_is_refused_with_its_key(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, yaml: str, says: str
) -> None:
    (tmp_path / "config.yaml").write_text(yaml)
    assert main(["run", "--config", str(tmp_path / "config.yaml"), "--print-settings"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "command", [["inject", "NeuronHasError_DMA_ERROR"], ["clear", "all"], ["replay", "/nowhere"], ["bundle"]]
)
def test_settings_are_printed_instead_of_what_a_command_does(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "kmsg"
    log.write_bytes(b"")
    assert main([*command, "--print-settings", "--kmsg", str(log), "--state-dir", str(tmp_path)]) == 0
    assert f'kmsg: "{log}"' in capsys.readouterr().out
    assert [file.name for file in tmp_path.iterdir()] == ["kmsg"]
    assert log.read_bytes() == b""


def test_a_switch_before_a_file_does_not_take_it_for_its_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    log.write_text("14,1,1,-;NEURON_HW_ERR=DMA_ERROR nd-id=0\n3,2,2,-;NEURON_HW_ERR=DMA_ERROR nd-id=0\n")
    assert main(["replay", "--kernel-only", str(log), "--output", "json"]) == 1
    assert capsys.readouterr().out.count('"line":2') == 1

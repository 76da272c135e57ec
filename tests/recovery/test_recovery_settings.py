"""Recovery's settings: what they are when nobody says anything, and what is refused in which words."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pytest

from recovery.parts import rules_of
from recovery.policy import Budget, Policy
from recovery.settings import LAYERS, Enabled, Kubernetes, Settings
from runtime.durations import Duration
from runtime.layers import SettingsError
from runtime.vocabulary import Action

if TYPE_CHECKING:
    from pathlib import Path


def resolve(*arguments: str, environ: dict[str, str] | None = None, file: Path | None = None) -> Settings:
    parser = argparse.ArgumentParser()
    LAYERS.add_flags(parser)
    given = [*arguments, *(["--config", str(file)] if file else [])]
    return LAYERS.resolve(parser.parse_args(given), environ or {})


def test_the_defaults_are_those_of_the_contract() -> None:
    settings = resolve()
    assert settings == Settings()
    assert (settings.enabled, settings.kubernetes) == (Enabled.DETECTOR, Kubernetes.AUTO)
    assert (settings.poll, settings.stale_after, settings.standalone_wait) == (Duration(5), Duration(60), Duration(30))
    assert (settings.cloud_connect, settings.cloud_read, settings.cloud_round) == (
        Duration(2),
        Duration(5),
        Duration(30),
    )
    assert settings.listen == "0.0.0.0:20258"
    assert settings.namespace == "neuron-healthcheck-system"
    assert settings.detector_url == "http://127.0.0.1:20257/metrics"
    assert (settings.prometheus_url, settings.cluster_name, settings.region, settings.policies) == ("", "", "", {})
    assert settings.budget == Budget()


def test_a_file_may_hold_policies_and_the_budget(tmp_path: Path) -> None:
    file = tmp_path / "recovery.yaml"
    file.write_text(
        "enabled: true\n"
        "policies:\n"
        "  NeuronHasError_DMA_ERROR: {confirmFor: 30s, drainTimeout: 1m}\n"
        "  default: {action: none}\n"
        "budget: {maxConcurrent: 5, maxPerHour: 12, stormWindow: 10m, forceTerminate: true}\n"
    )
    settings = resolve(file=file)
    assert settings.enabled is Enabled.TRUE
    assert settings.policies == {
        "NeuronHasError_DMA_ERROR": Policy(confirm_for=Duration(30), drain_timeout=Duration(60)),
        "default": Policy(action=Action.NONE),
    }
    assert settings.budget == Budget(
        max_concurrent=5, max_per_hour=12, storm_window=Duration(600), force_terminate=True
    )


def test_what_is_printed_can_be_read_again(tmp_path: Path) -> None:
    file = tmp_path / "recovery.yaml"
    file.write_text("policies: {A: {action: reboot}}\nbudget: {maxPerGroup: 2}\nenabled: false\nregion: us-west-2\n")
    settings = resolve(file=file)
    again = tmp_path / "again.yaml"
    again.write_text(LAYERS.show(settings))
    assert resolve(file=again) == settings


@pytest.mark.parametrize(
    ("environ", "region"),
    [
        ({"AWS_REGION": "us-west-2", "AWS_DEFAULT_REGION": "us-east-1"}, "us-west-2"),
        ({"AWS_REGION": "", "AWS_DEFAULT_REGION": "us-east-1"}, "us-east-1"),
        ({"AWS_DEFAULT_REGION": "us-gov-west-1"}, "us-gov-west-1"),
        ({}, ""),
    ],
)
def test_the_region_comes_from_the_first_variable_that_is_set(environ: dict[str, str], region: str) -> None:
    assert resolve(environ=environ).region == region
    assert resolve("--region", "eu-west-1", environ=environ).region == "eu-west-1"


@pytest.mark.parametrize(
    ("written", "enabled"),
    [("true", True), ("false", False), ("detector", None)],
)
def test_enabled_is_one_of_three(written: str, enabled: bool | None) -> None:
    assert rules_of(resolve(environ={"ENABLE_RECOVERY": written})).enabled is enabled
    assert rules_of(resolve("--enable-recovery", written)).enabled is enabled


def test_the_random_wait_is_for_machines_that_stand_alone() -> None:
    waits = [rules_of(resolve("--kubernetes", "off")).hold_seconds for _ in range(50)]
    assert all(0 <= wait <= 30 for wait in waits)
    assert len(set(waits)) > 10
    assert rules_of(resolve("--kubernetes", "on")).hold_seconds == 0.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--enable-recovery", "maybe"], "flag --enable-recovery.*allowed: true, false, detector"),
        (["--poll", "500ms"], "poll: 500ms is too short .allowed: 1s or more"),
        (["--poll", "5"], "flag --poll.*'5' is not a duration"),
        (["--region", "us_west_2"], "region: 'us_west_2' is none .allowed: a name such as us-west-2"),
        (["--prometheus-url", "prometheus:9090"], "prometheusUrl.*allowed: http://HOST:PORT/PATH or https://"),
        (["--prometheus-url", "http://me:secret@prometheus"], "prometheusUrl.*names and passwords"),
        (["--prometheus-url", "http://prometheus/?x=1"], "prometheusUrl"),
        (["--prometheus-token-file", "/t"], "prometheusTokenFile: of no use without prometheusUrl"),
        (["--prometheus-url", "http://p", "--prometheus-ca-file", "/c"], "prometheusCaFile: of no use without https"),
        (
            [
                "--prometheus-url",
                "https://p",
                "--prometheus-token-file",
                "/t",
                "--prometheus-sigv4-region",
                "us-west-2",
            ],
            "prometheusTokenFile: .*allowed: one of both",
        ),
        (
            ["--prometheus-url", "https://p", "--prometheus-sigv4-region", "us_west_2"],
            "prometheusSigv4Region: 'us_west",
        ),
        (["--prometheus-url", "http://prometheus:port"], "prometheusUrl"),
        (["--detector-url", "https://127.0.0.1/metrics"], "detectorUrl.*allowed: http://HOST:PORT/PATH,"),
        (["--detector-url", "http:///metrics"], "detectorUrl"),
        (["--prometheus-selector", '{cluster="a"}'], "prometheusSelector.*allowed: label matchers without braces"),
        (["--prometheus-selector", 'cluster="a"} or vector(0'], "prometheusSelector"),
        (["--prometheus-selector", 'cluster="a'], "prometheusSelector"),
        (["--kubernetes", "perhaps"], "allowed: auto, on, off"),
    ],
)
def test_an_impossible_flag_is_refused_with_what_is_allowed(arguments: list[str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        resolve(*arguments)


@pytest.mark.parametrize("url", ["http://me:secret@p", "http://secret@p:9090/x", "http://p/secret@x", "secret@"])
def test_a_password_in_an_address_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(SettingsError, match="names and passwords in an address are not taken") as caught:
        resolve("--prometheus-url", url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("selector", ["", 'cluster="a"', ' cluster = "a" , env =~ "p.*\\"x" ', 'a!="b",c!~"d"'])
def test_label_matchers_are_taken_as_they_are(selector: str) -> None:
    assert resolve("--prometheus-selector", selector).prometheus_selector == selector


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("polls: 5s", "unknown key 'polls' .did you mean 'poll'"),
        ("budget: {maxConcurent: 1}", "budget: unknown key 'maxConcurent' .did you mean 'maxConcurrent'"),
        ("budget: {maxConcurrent: 0}", "budget.*>= 1"),
        ("budget: {maxUnhealthyPercent: 101}", "budget.*<= 100"),
        ("budget: {stormWindow: 0s}", "stormWindow: 0s is too short"),
        ("policies: {A: {confirm: 1s}}", "policies.A: unknown key 'confirm' .did you mean 'confirmFor'"),
        ("policies: {A: {action: kill}}", "policies.A.action: invalid enum value 'kill' .allowed: none, reboot"),
        ("policies: {A: {confirmFor: 10}}", "policies.*10 is not a duration"),
        ("policies: {NeuronHasError_HANG_ON_COLLECTIVES: {action: replace}}", "would take every worker of a job"),
        ("staleAfter: 1h", "staleAfter: 1h is too long"),
        ("cloudRound: 1s", "cloudRound: shorter than cloudConnect or cloudRead"),
        ("enabled: perhaps", "enabled.*allowed: true, false, detector"),
    ],
)
def test_an_impossible_file_is_refused_with_the_key_and_what_is_allowed(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "recovery.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=words):
        resolve(file=file)


@pytest.mark.parametrize("wrong", ["foo", "i-0ABCDEF0", "i-012", "i-0123456789abcdef0 "])
def test_an_instance_id_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(SettingsError, match=r"instanceId: .* 8 or 17 lower-case hex digits"):
        resolve("--instance-id", wrong)
    assert resolve("--instance-id", "i-0123456789abcdef0").instance_id == "i-0123456789abcdef0"

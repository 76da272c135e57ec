"""What no support archive may give away, whatever stands beside it, and what it must keep to be of use."""

from __future__ import annotations

import ipaddress
import json
import string
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from detector.redact import HOST, USER, Redactor

FIELD_LINES = Path(__file__).parents[1] / "data" / "kmsg_lines.jsonl"
OWN = ("gpu-7.corp.example.org", "ip-10-0-0-1.us-west-2.compute.internal")
# What is in a text, and what must not be there afterwards.
SECRETS = [
    ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI", "wJalrXUtnFEMI"),
    ("access key AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
    ("xASIAY34FZKBOKMUTVV7A in the middle of a word", "ASIAY34FZKBOKMUTVV7A"),
    ("a bare wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY of 40", "wJalrXUtnFEMI"),
    ("Authorization: Bearer abc def", "abc"),
    ("authorization: AWS4-HMAC-SHA256 Credential=x/y, Signature=fe5f80", "fe5f80"),
    ("Proxy-Authorization: Basic dTpw", "dTpw"),
    ("-H 'Authorization: token 5c3f'", "5c3f"),
    ("Cookie: id=abc; theme=dark", "abc"),
    ("sent Bearer s3cr3t-opaque", "s3cr3t-opaque"),
    ("Basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA"),
    ("GET https://me:hunter2@example.com/x", "hunter2"),
    ("https://me:hunt@er2@example.com/x", "hunt"),
    ("postgres://db:5432/?password=hunter2&ssl=1", "hunter2"),
    ("https://b.s3/x?X-Amz-Signature=abcd&X-Amz-Expires=5", "abcd"),
    ("--db-password hunter2 --verbose", "hunter2"),
    ("--db-password=hunter2", "hunter2"),
    ("--password --token hunter2", "hunter2"),
    ("--password -hunter2", "hunter2"),
    ("curl -u me:hunter2 x", "hunter2"),
    ("curl --user=me:hunter2 x", "hunter2"),
    ('{"token": "abc\\"hunter2", "a": "b"}', "hunter2"),
    ('{\\"clientSecret\\":\\"hunter2\\"}', "hunter2"),
    ("passphrase: 'correct horse'", "horse"),
    ("secret: token: hunter2", "hunter2"),
    ("WANDB_API_KEY=hunter2", "hunter2"),
    ("DB_PASS=hunter2", "hunter2"),
    ("user=bob,pass=hunter2,domain=x", "hunter2"),
    ("--pass=hunter2", "hunter2"),
    ("--pass hunter2", "hunter2"),
    ("wpa psk=hunter2", "hunter2"),
    ("pw: hunter2", "hunter2"),
    ("?sv=2022&sig=hunter2", "hunter2"),
    ("otp=123456", "123456"),
    ("passcode: 1234", "1234"),
    ("bindpw hunter2", "hunter2"),
    ("hostname = trainer", "trainer"),
    ('"hostname": "trainer"', "trainer"),
    ("my_auth=hunter2", "hunter2"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVP", "dBjftJeZ4CVP"),
    ("ghp_abcdefghijklmnopqrst", "abcdefghijklmnopqrst"),
    ("hf_abcdefghijklmnopqrst", "abcdefghijklmnopqrst"),
    ("sk-proj-Ab1cdefghijklmnop", "Ab1cdefghijklmnop"),
    ("xoxb-123456-abcdef", "abcdef"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIB\nOgIB\n-----END RSA PRIVATE KEY-----", "OgIB"),
    ("-----BEGIN PRIVATE KEY-----\\nMIIB\\nOgIB\\n", "OgIB"),
    ('audit: type=1309 audit(1764.1:2): argc=2 a0="mysql" a1="-phunter2"', "hunter2"),
    ("audit: type=1123 audit(1764.1:2): cmd=2F62696E", "2F62696E"),
    ("from 10.1.2.3:22", "10.1.2.3"),
    ("x10.1.2.3x", "10.1.2.3"),
    ("::ffff:10.1.2.3", "10.1.2.3"),
    ("fe80::1%eth0", "fe80::1"),
    ("[2600:1f14:1::a]:443", "2600:1f14:1::a"),
    ("2001:0db8:85a3:0000:0000:8a2e:0370:7334", "8a2e:0370"),
    ("fd00:ec2::254", "fd00:ec2::254"),
    ("ether 06:1a:2B:3c:4d:5e", "06:1a:2B:3c:4d:5e"),
    ("added:06:1a:2b:3c:4d:5e", "1a:2b:3c:4d:5e"),
    ("00-1a-2b-3c-4d-5e", "1a-2b-3c"),
    ("mail bob.smith+x@example.com", "bob.smith"),
    ("arn:aws:iam::123456789012:role/x", "123456789012"),
    ("arn:aws-us-gov:ec2:us-gov-west-1:123456789012:instance/i-0a1b2c3d4e5f60718", "123456789012"),
    ('"accountId": "123456789012"', "123456789012"),
    ("123456789012.dkr.ecr.us-west-2.amazonaws.com/x", "123456789012"),
    ("ABCD.gr7.us-west-2.eks.amazonaws.com", "ABCD.gr7"),
    ("hostname=trainer nd-id=0", "trainer"),
    ("at gpu-7 and GPU-7.corp.example.org", "7"),
    ("ip-10-0-12-34.us-west-2.compute.internal", "10-0-12-34"),
    ("ec2-52-1-2-3.compute-1.amazonaws.com", "52-1-2-3"),
    ("db1.corp.example.org:5432", "db1"),
    ("/home/alice/train.py", "alice"),
    ("cri-containerd-" + "0123456789abcdef" * 4 + ".scope", "0123456789abcdef"),
]
KEPT = [
    "NEURON_HW_ERR=DMA_ERROR instance-id=i-0a1b2c3d4e5f60718 nd-id=11 nc-id=1 serial-num=1a2b3c4d5e6f7a8b action=NONE",
    "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus.",
    "neuron 0000:00:1e.0: BAR 4 [mem 0x100000000-0x1ffffffff 64bit pref]",
    "Neuron Driver Started with Version:2.24.7.0",
    "10:15:30 2026-11-29T10:15:30Z [12345.678901] 2026:11:29:10",
    "boot 728d0e37-7d1f-4239-9b7c-c629557c1529",
    "listening on 0.0.0.0:20257, 127.0.0.1, 169.254.169.254, 255.255.255.255, ::1",
    "Started user@1000.service, getty@tty1.service",
    "apiVersion: chipwarden.io/v1 node.kubernetes.io/instance-type eks.amazonaws.com/nodegroup docs.kernel.org",
    "foo.c:12 libnrt.so.1 nccl.conf core.1234 trn1.32xlarge",
    "NvidiaHasError_XID_79_GPU_HAS_FALLEN_OFF_THE_BUS NeuronHasError_HBM_UNCORRECTABLE_ERROR",
    "Out of memory: Killed process 4242 (python3) total-vm:1024kB, anon-rss:512kB, oom_score_adj:0",
    "disk-by-id-nvme-something-long arn:aws:s3:::bucket passive token",
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,host=0",
    "opt -u mode basic functions of the bearer",
    "NEURON_HW_ERR=DMA_ERROR hostname= nd-id=11 nc-id=1",
    "iommu by-pass mode, a second pass of 3",
]


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_a_secret_does_not_survive(text: str, secret: str) -> None:
    redacted = Redactor(OWN).text(text)
    assert secret not in redacted
    assert Redactor(OWN).text(redacted) == redacted


@pytest.mark.parametrize("text", KEPT)
def test_what_explains_a_fault_is_kept(text: str) -> None:
    redactor = Redactor(OWN)
    assert redactor.text(text) == text
    assert redactor.values == redactor.places == {}


def test_of_all_lines_of_the_field_only_names_hashes_and_audit_texts_go() -> None:
    redactor = Redactor()
    lines = [json.loads(line)["line"] for line in FIELD_LINES.read_text().splitlines()]
    changed = [line for line in lines if redactor.text(line) != line]
    assert redactor.values == {"hex": 2, "hidden": 1, "host": 1}
    assert len(changed) == 9


def test_the_same_value_always_gets_the_same_placeholder() -> None:
    redactor = Redactor()
    assert redactor.text("10.1.2.3 to 10.1.2.4") == "<ip-1> to <ip-2>"
    assert redactor.text("10.1.2.4 to 10.1.2.3, FE80::1, fe80::1") == "<ip-2> to <ip-1>, <ip-3>, <ip-3>"
    assert redactor.values == {"ip": 3}
    assert redactor.places == {"ip": 6}


def test_the_own_node_is_one_host_with_or_without_its_domain() -> None:
    redactor = Redactor(OWN)
    assert (
        redactor.text("IP-10-0-0-1.us-west-2.compute.internal ip-10-0-0-1 on gpu-7") == "<host-1> <host-1> on <host-2>"
    )
    assert redactor.text("hostname=ip-10-0-0-1 nd-id=0") == "hostname=<host-1> nd-id=0"
    assert redactor.text("ip-10-0-0-2.ec2.internal is not ip-10-0-0-3 but ip-10-0-0-2") == (
        "<host-3> is not <host-4> but <host-3>"
    )


def test_own_names_that_are_parts_of_many_words_are_told_instead() -> None:
    redactor = Redactor(["vm1", "neuron", "", "büro-rechner"])
    assert redactor.too_common == ["büro-rechner", "neuron", "vm1"]
    assert redactor.text("NeuronHasError on vm1") == "NeuronHasError on vm1"


def test_names_are_kept_when_asked_for_and_secrets_go_all_the_same() -> None:
    redactor = Redactor(OWN, keep=(HOST, USER))
    text = "/home/alice on gpu-7 and db.corp.internal at 10.1.2.3, hostname=a.example.com, token=x"
    assert redactor.text(text) == text.replace("10.1.2.3", "<ip-1>").replace("=x", "=<hidden-1>")
    assert redactor.tree({"hostname": "trainer"}) == {"hostname": "trainer"}


def test_json_stays_json_and_keys_tell_what_values_are() -> None:
    found = {
        "hostname": "trainer",
        "nodeName": "",
        "apiToken": "hunter2",
        "pin_secret": 1234,
        "auth": ["one", None, True],
        "db_pass": "hunter3",
        "10.1.2.3": {"text": 'says "password:"', "n": 1.5, "list": [1, "bob@example.com"]},
        "sha256": "ab" * 32,
        "again": "ab" * 32,
    }
    redactor = Redactor()
    redacted = redactor.tree(found)
    assert redacted == {
        "hostname": "<host-1>",
        "nodeName": "",
        "apiToken": "<hidden-1>",
        "pin_secret": "<hidden-2>",
        "auth": ["<hidden-3>", None, True],
        "db_pass": "<hidden-4>",
        "<ip-1>": {"text": 'says "password:"', "n": 1.5, "list": [1, "<email-1>"]},
        "sha256": "ab" * 32,
        "again": "<hex-1>",
    }
    assert Redactor().tree(redacted) == redacted


def test_bytes_of_any_encoding_are_taken() -> None:
    assert Redactor().raw(b"\xff\x00 10.1.2.3 \xe9") == b"\xff\x00 <ip-1> \xe9"
    assert Redactor().text("\ud800 é 10.1.2.3") == "? é <ip-1>"


LETTERS_AND_DIGITS = string.ascii_letters + string.digits
LONG = st.text(LETTERS_AND_DIGITS, min_size=12, max_size=30)
GROUPS = st.integers(0, 2**112 - 1).map(lambda low: str(ipaddress.ip_address(0xFD12 << 112 | low)))
# Each secret with what makes it known for one.
ALL_KINDS = st.one_of(
    st.tuples(st.sampled_from(["AKIA", "ASIA"]), st.text(string.ascii_uppercase, min_size=16, max_size=16)),
    st.tuples(st.sampled_from(["password=", "--token ", "X_API_KEY: ", '"secret":"', "authorization: "]), LONG),
    st.tuples(st.just("Bearer "), LONG),
    st.tuples(st.just("https://me:"), LONG.map(lambda secret: secret + "@")),
    st.tuples(st.just(""), st.ip_addresses(v=4, network="10.0.0.0/8").map(str)),
    st.tuples(st.just(""), GROUPS),
    st.tuples(st.just(""), st.binary(min_size=6, max_size=6).map(lambda mac: mac.hex(":"))),
    st.tuples(st.just(""), LONG.map(lambda user: f"{user}@example.com")),
    st.tuples(st.just("arn:aws:iam::"), st.text(string.digits, min_size=12, max_size=12)),
    st.tuples(st.just("/home/"), LONG),
    st.tuples(st.just(""), st.binary(min_size=16, max_size=16).map(bytes.hex)),
    st.tuples(st.just(""), st.just("gpu-7.corp.example.org")),
)
PIECES = st.sampled_from([
    "token", "=", ":", '"', "'", "\\", "--", "-u ", "<", ">", "<ip-1>", " ", "\n", "/", "@", "audit: type=1 audit(1):",
    "10.0.", "fe80:", "aa:", "AKIA", "eyJaaaaa.", "arn:aws:", "Bearer", "gpu-7", "hostname=", "x.com", "é", "a", "1",
    "&", "-----BEGIN PRIVATE KEY-----", "Authorization: ",
])  # fmt: skip
TEXTS = st.lists(PIECES | st.text(max_size=5), max_size=12).map("".join)


@given(TEXTS, ALL_KINDS, TEXTS)
@example("token=", ("Bearer ", "hunter2hunter2"), "")
@example("Authorization: ", ('"secret":"', "hunter2hunter2"), "")
@example("token= Authorization:", ("Basic ", "aHVudGVyMg"), "")
def test_no_secret_survives_whatever_stands_around_it(before: str, secret: tuple[str, str], after: str) -> None:
    known_by, value = secret
    text = f"{before} {known_by}{value} {after}"
    assert value.rstrip("@") not in Redactor(OWN).text(text)


@given(TEXTS, ALL_KINDS, TEXTS)
@example("token=token", ("AKIA", "A" * 16), "=token")
@example("-----BEGIN PRIVATE KEY-----", ("", "fd12::1"), "--x.com")
@example("", ("", "-----BEGIN PRIVATE KEY-----gpu-7"), "")
def test_redacting_twice_changes_nothing_more(before: str, secret: tuple[str, str], after: str) -> None:
    once = Redactor(OWN).text(before + "".join(secret) + after)
    assert Redactor(OWN).text(once) == once


HOSTILE = ["a", "1.", "a:", "token", "token=", "-", "::", "2600:", "x@", "a.", "AKIA", "eyJaaaaaa.", "ip-1-", "://a",
           "audit: type=1 audit(1):", 'password="', "-----BEGIN PRIVATE KEY-----", "arn:a:a:a:", "\\", "--token ",
           "aa:", "<ip-1>", "version ", "/home/a"]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_texts_take_linear_time(piece: str) -> None:
    """Eight times the text takes eight times as long; thirty-two leaves room for a busy machine."""

    def seconds(size: int) -> float:
        text = (piece * size)[:size].encode()
        best = float("inf")
        for _ in range(3):
            redactor, began = Redactor(OWN), time.thread_time()
            redactor.raw(text)
            best = min(best, time.thread_time() - began)
        return best

    assert seconds(80_000) < 32 * max(seconds(10_000), 0.0005)

"""What the own Node is called where nobody says it."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from runtime.identity import node_name

if TYPE_CHECKING:
    import pytest


def test_without_a_setting_it_is_the_host_name_as_the_kubelet_writes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "IP-10-0-0-1.EC2.internal ")
    assert node_name("") == node_name(None) == "ip-10-0-0-1.ec2.internal"


def test_a_setting_is_taken_as_it_is() -> None:
    assert node_name("Trn-1") == "Trn-1"

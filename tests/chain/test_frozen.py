"""A leader is frozen after it has looked at its Lease and before it has made its call, until another one leads."""

from __future__ import annotations

import signal
from datetime import timedelta
from typing import TYPE_CHECKING

from tests.aws.credentials import CredentialServer
from tests.chain.place import SRAM
from tests.detector.process import until
from tests.kubernetes.faults import FaultProxy, passes

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from tests.chain.place import Place
    from tests.kubernetes.faults import Fault

REBOOT = "ec2:RebootInstances"
POLICIES = {SRAM: {"action": "reboot", "confirmFor": "1s", "drainTimeout": "0s"}}


def test_a_leader_that_was_frozen_right_before_a_reboot_leaves_it_to_the_next(place: Place) -> None:
    (machine,) = place.machines_of(place.aws.player.make_group(10), 1)
    with CredentialServer() as agent, FaultProxy(place.plane) as way:
        agent.valid = timedelta(minutes=8)  # so little that they are asked for anew before each call
        env = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{agent.url}/credentials"}
        frozen = place.recovery(
            kubeconfig=place.kubeconfig_at(way.url),
            env={"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None, **env},
            policies=POLICIES,
        )
        until(lambda: frozen.metric("observations", "healthy") == 1, seconds=30, what="it leads and sees")
        place.recovery(policies=POLICIES)
        way.always(_keeps_credentials_once_a_reboot_is_written(agent))
        machine.break_down("SRAM_UNCORRECTABLE_ERROR")
        until(lambda: not agent.answers.is_set(), seconds=30, what="the reboot is written down")
        until(lambda: agent.waiting, what="credentials for it are asked for")
        frozen.process.send_signal(signal.SIGSTOP)
        agent.answers.set()

        heir = place.leader(but=frozen)
        assert machine.entry()["state"] == "rebooting"
        assert not place.aws.proxy.of(REBOOT)
        steps = frozen.log("step")
        frozen.process.send_signal(signal.SIGCONT)
        until(lambda: machine.entry()["state"] == "drained", what="it says that it has not made the call")
        until(lambda: frozen.metric("leader") == 0, what="it knows that it leads no more")
        assert not place.aws.proxy.of(REBOOT)

        until(lambda: place.aws.proxy.of(REBOOT), seconds=40, what="the other replica reboots the machine")
        passed = len(place.asked("get", "configmaps/recovery-control"))
        until(lambda: len(place.asked("get", "configmaps/recovery-control")) > passed + 3, seconds=30, what="3 passes")
        assert frozen.log("step") == steps
        assert "rebooting" in [line["step"] for line in heir.log("step")]
    assert len(place.aws.proxy.of(REBOOT)) == 1
    assert machine.entry()["state"] == "rebooting"
    assert place.marked() == []


def _keeps_credentials_once_a_reboot_is_written(agent: CredentialServer) -> Fault:
    def fault(client: socket.socket, fetch: Callable[[], bytes]) -> bool:
        answer = fetch()
        if b'\\"state\\":\\"rebooting\\"' in fetch.args[0].body:  # type: ignore[attr-defined]
            agent.answers.clear()
        return passes(client, lambda: answer)

    return fault

"""One machine without Kubernetes, for the documentation's commands: both programs run on it, and AWS is played.

Its kernel log is a file that the detector follows, so that nothing here needs root or disturbs other tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.aws.surroundings import _server
from tests.detector.process import Detector, until
from tests.docs.sandbox import Sandbox
from tests.kubernetes.process import free_port
from tests.recovery.program import Recovery

if TYPE_CHECKING:
    from pathlib import Path

    from tests.aws.surroundings import Aws


def aws_url() -> str:
    """Tell where moto's server is, for calls that recovery's proxy does not know."""
    host, port = _server().get_host_and_port()
    return f"http://{host}:{port}"


class Machine:
    """A machine of an Auto Scaling group, with detector and recovery.

    Args:
        folder: for all files.
        aws: with the group.
    """

    def __init__(self, folder: Path, aws: Aws) -> None:
        group = aws.player.make_group(3)
        self._detector = Detector(folder, instance=aws.player.instances(group)[0])
        kmsg = folder / "kmsg"
        kmsg.touch()
        port = free_port()
        self.sandbox = Sandbox(folder)
        self.sandbox.env |= aws.env() | {
            "DOCS_AWS_URL": aws_url(),
            "CHIPWARDEN_KMSG": str(kmsg),
            "CHIPWARDEN_KMSG_FOLLOW": "true",
            "CHIPWARDEN_STATE_DIR": str(self._detector.state_dir),
            "CHIPWARDEN_INSTANCE_ID": self._detector.instance,
            "CHIPWARDEN_DETECTOR_URL": f"http://127.0.0.1:{port}/metrics",
        }
        env = self.sandbox.env
        self._detector.launch("run", "--kubernetes", "off", "--listen", f"127.0.0.1:{port}", env=env)
        self._detector._port = port
        until(lambda: self._detector.log("detector started"), seconds=20, what="the detector started")
        self._recovery = Recovery(folder, "--kubernetes", "off", "--poll", "1s", env=env).start()
        recovery_port = self._recovery.log("recovery started")[0]["port"]
        self.sandbox.words |= {
            "127.0.0.1:20257": f"127.0.0.1:{port}",
            "127.0.0.1:20258": f"127.0.0.1:{recovery_port}",
            "/var/lib/chipwarden": str(self._detector.state_dir),
        }

    def close(self) -> None:
        """End both programs."""
        self._recovery.kill()
        self._detector.kill()

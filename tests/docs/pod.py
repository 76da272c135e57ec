"""kubectl for the documentation's commands: `exec` and `logs`, for which there is no kubelet, are played here.

The API server says whether the pod or workload is there; the command then runs on this machine with the environment
that the pod would have, which whoever plays the kubelet has written down (`kubelet.py`). All else is kubectl itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.kubernetes.binaries import program

# Where a pod finds its account, in a mount namespace of the command's own.
_WITH_ACCOUNT = """
mount -t tmpfs tmpfs /run && mkdir -p /run/secrets/kubernetes.io
cp -r "$0" /run/secrets/kubernetes.io/serviceaccount && exec "$@"
"""


def main(arguments: list[str]) -> None:
    """Run kubectl, or what it would have the kubelet run."""
    kubectl = program("kubectl")
    verb = next((word for word in arguments if word in ("exec", "logs")), None)
    if verb is None:
        os.execv(kubectl, [kubectl, *arguments])  # noqa: S606 - becomes kubectl
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    words = [word for word in before if word != verb]
    target = next(word for word in words if "node-problem-detector" in word or "chipwarden-recovery" in word)
    rest = [word for word in words if word != target and not word.startswith(("--tail", "-c", "--since"))]
    kind = [] if "/" in target else ["pod"]
    subprocess.run([kubectl, "get", *kind, target, *rest, "-o", "name"], check=True, stdout=subprocess.DEVNULL)
    role = "recovery" if "recovery" in target else "detector"
    inside = json.loads((Path(os.environ["DOCS_PODS"]) / f"{role}.json").read_text())
    if verb == "logs":
        sys.stdout.write(Path(inside["log"]).read_text())
        return
    inner = arguments[arguments.index("--") + 1 :]
    if "account" in inside:
        inner = ["unshare", "--mount", "sh", "-c", _WITH_ACCOUNT, inside["account"], *inner]
    os.execvpe(inner[0], inner, os.environ | inside["env"])  # noqa: S606 - becomes the command


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)

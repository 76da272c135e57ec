"""Why commands that begin so are not run, wherever they stand; a page gives other reasons itself, before the block."""

from __future__ import annotations

NOT_RUN = {
    "make ": "CI runs `make check`; what the other targets do is tested where it is made",
    "sudo make ": "the same; `make run` runs until it is stopped, and `make bench` wants the machine for itself",
    "docker build": "there is no Docker in CI; tests/kubernetes/test_image.py builds the same Dockerfile with buildah",
    "docker exec": "the same; the command inside is run in tests/detector and tests/recovery",
    "helm ": "needs AWS's chart, which is not ours to ship",
}

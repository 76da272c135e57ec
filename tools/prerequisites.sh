#!/usr/bin/env bash
# Installs what the tests need beside Python packages, or says in one sentence what lacks.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(prometheus containerd runc containernetworking-plugins buildah busybox-static mmdebstrap iproute2 openssl curl git systemd)

say() { echo "make test: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || say "needs root, to write to /dev/kmsg and to run a kubelet (make test-pure does not)"
command -v apt-get >/dev/null || say "needs Debian's apt-get, to install ${packages[*]} (make test-pure does not)"
command -v go >/dev/null || say "needs Go 1.26 or newer on PATH, to build Kubernetes (make test-pure does not)"
[ -c /dev/kmsg ] || say "needs the kernel log /dev/kmsg (make test-pure does not)"

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null)" = "ii " ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null || say "apt-get could not install ${missing[*]}"
fi
python3 tests/kubernetes/build.py >/dev/null
python3 tests/karpenter/build.py >/dev/null

"""All benches, one after the other: `make bench`, or `make bench ARGS=hotpath`."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

_ALL: Final = ("hotpath", "live", "kube", "recovery")


def main() -> int:
    wanted = sys.argv[1:] or list(_ALL)
    unknown = [name for name in wanted if name not in _ALL]
    if unknown:
        print(f"bench: {unknown[0]!r} is not a bench (allowed: {', '.join(_ALL)})", file=sys.stderr)
        return 2
    if os.geteuid() != 0:
        print("bench: needs root, to write to /dev/kmsg", file=sys.stderr)
        return 1
    for name in wanted:
        print(f"\n## {name}\n", flush=True)
        subprocess.run([sys.executable, "-m", f"bench.{name}"], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

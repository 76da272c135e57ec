"""What a support archive holds so far: redacted parts, and a manifest of what is in it and what is not.

Everything that goes in passes through here, so that nothing gets around the redaction or the limits.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from detector.redact import KEPT

if TYPE_CHECKING:
    from datetime import datetime

    from detector.redact import Redactor

LARGEST_BYTES: Final = 4 << 20  # of one part
_LONGEST_NAME: Final = 60
_ODD: Final = re.compile(r"[^A-Za-z0-9._/-]+")
_EXIT_CODES: Final = {
    "0": "the archive was written; what it lacks is listed under `missing`",
    "1": "no archive was written",
    "2": "the settings are refused, so that it is unknown what to look at",
}
_SEND_TOO: Final = (
    "the detector's own log, which it writes to its standard output: kubectl logs -n neuron-healthcheck-system POD,"
    " kubectl logs --previous if it was restarted, or journalctl -u chipwarden-detector"
)


class Collection:
    """Parts of an archive.

    Args:
        redactor: what everything goes through.
    """

    def __init__(self, redactor: Redactor) -> None:
        self.files: dict[str, bytes] = {}
        self.missing: list[dict[str, str]] = []
        self._redactor = redactor
        self._listed: list[dict[str, Any]] = []

    def add_text(self, name: str, about: str, text: bytes, *, is_cut: bool = False) -> None:
        """Add a text; one in JSON stays JSON.

        Args:
            name: of the file in the archive, `/` in it for folders.
            about: what it is.
            text: as it was found.
            is_cut: it was longer.
        """
        if len(text) > LARGEST_BYTES:
            text, is_cut = text[: text.rfind(b"\n", 0, LARGEST_BYTES) + 1 or LARGEST_BYTES], True
        if name.endswith(".json"):
            try:
                redacted = _written(self._redactor.tree(msgspec.json.decode(text)))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                redacted = self._redactor.raw(text)
        else:
            redacted = self._redactor.raw(text)
        self._add(name, about, redacted, is_cut=is_cut)

    def add(self, name: str, about: str, value: Any) -> None:
        """Add a value as JSON; it may hold what msgspec can encode."""
        self._add(name, about, _written(self._redactor.tree(msgspec.to_builtins(value))), is_cut=False)

    def add_lines(self, name: str, about: str, values: list[Any]) -> None:
        """Add values as JSON, one a line; the last ones, if they are too many."""
        lines: list[bytes] = []
        size = 0
        for value in reversed(values):
            lines.append(msgspec.json.encode(self._redactor.tree(msgspec.to_builtins(value))) + b"\n")
            size += len(lines[-1])
            if size > LARGEST_BYTES:
                break
        self._add(name, about, b"".join(reversed(lines)), is_cut=len(lines) < len(values))

    def miss(self, what: str, why: str) -> None:
        """Say that something could not be got."""
        self.missing.append({"what": what, "why": self._redactor.text(why)})

    def finish(self, at: datetime) -> dict[str, int]:
        """Add the manifest; tell how many different values of each kind were redacted.

        Args:
            at: when all of it was collected.
        """
        values = self._redactor.values
        manifest = {
            "about": "A support archive of chipwarden-detector. Look through it before you send it to anybody.",
            "created_at": f"{at:%Y-%m-%dT%H:%M:%SZ}",
            "missing": self.missing,
            "files": sorted(self._listed, key=lambda entry: str(entry["name"])),
            "send_too": _SEND_TOO,
            "redacted": {
                kind: {"values": values[kind], "places": places}
                for kind, places in sorted(self._redactor.places.items())
            },
            "kept_on_purpose": KEPT,
            "never_collected": ["environment variables", "credentials and tokens", "the detector's memory"],
            "exit_codes": _EXIT_CODES,
        }
        if self._redactor.too_common:
            manifest["not_redacted"] = f"{len(self._redactor.too_common)} own names, too short or too common to be told"
        self.files["manifest.json"] = _written(manifest)
        return values

    def _add(self, name: str, about: str, content: bytes, *, is_cut: bool) -> None:
        name = _ODD.sub("_", self._redactor.text(name))[:_LONGEST_NAME]
        self.files[name] = content
        entry = {"name": name, "about": about, "bytes": len(content)}
        self._listed.append(entry | {"cut": "it was longer"} if is_cut else entry)


def _written(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"

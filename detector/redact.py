r"""What a person outside must not learn from a support archive, taken out of texts. Pure.

The same value always gets the same placeholder, such as `<ip-1>`, so that correlations survive. All patterns are RE2,
for the text is somebody's. They look at no word boundary and never cross a placeholder: whatever stands beside a secret
cannot hide it, and redacting twice changes nothing more. Kept on purpose: instance, boot and object ids, serial numbers
and bus addresses of devices, names of processes; without them nobody could help. When in doubt, more goes than must.

Source of the shapes: AWS IAM User Guide, "unique identifiers" (prefixes of ids), RFC 7519 (tokens that begin with eyJ),
GitHub, GitLab, Slack, Google and Hugging Face on their tokens' prefixes, Linux kernel/audit.c (read 2026-11-30).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import re2

from detector.patterns import compile_one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

HOST: Final = "host"
USER: Final = "user"
KEPT: Final = (
    "instance ids, boot ids and the Node's uid",
    "serial numbers and bus addresses of devices",
    "names of processes and containers in the kernel log",
    "versions (a number such as 2.24.7.0 only behind the word `version`)",
    "addresses that are the same everywhere (127.0.0.1, 0.0.0.0, 169.254.169.254)",
)
_HIDDEN: Final = "hidden"
_SHORTEST_NAME: Final = 4  # a host name of three letters is part of too many words
_COMMON_WORDS: Final = "chipwarden detector localhost kernel linux instance default neuron nvidia amdgpu habanalabs"
_EVERYWHERE: Final = frozenset({b"127.0.0.1", b"0.0.0.0", b"169.254.169.254", b"255.255.255.255"})
_DIGITS: Final = tuple(b"%d" % digit for digit in range(10))
_IPV6_GROUPS: Final = 8
_ADDRESS_NAME: Final = r"(?i)(?:ip|ec2)-\d{1,3}(?:-\d{1,3}){3}(?:\.[a-z0-9\-]*[a-z0-9])*"  # ip-10-0-0-1.ec2.internal
_ADDRESS: Final = compile_one(_ADDRESS_NAME)
_ADDRESS_NAMES: Final = (b"ip-", b"ec2-")  # how EC2 names hosts: one and the same with and without the domain
_UNITS: Final = (".service", ".socket", ".slice", ".scope", ".mount", ".timer", ".target", ".device", ".path", ".swap")
_DOMAIN: Final = compile_one(
    r"\.(?:ai|arpa|biz|cloud|com|corp|de|dev|edu|eu|fr|gov|home|info|int|internal|intra|io|jp|lan|local|localdomain|mil"
    r"|net|org|uk)$"
)
_PUBLIC: Final = compile_one(  # projects and vendors whose names stand in rules and annotations
    r"(?:^|\.)(?:amazon\.com|amd\.com|chipwarden\.io|github\.com|k8s\.io|kernel\.org|kubernetes\.io|nvidia\.com"
    r"|readthedocs-hosted\.com)$|^eks\.amazonaws\.com$"  # the last in labels; a cluster's endpoint is below it
)

_WORD: Final = r"(?:[A-Za-z0-9_.\-]|<[a-z]+-\d+>)*"
_TELLING: Final = (
    r"(?:pass(?:word|wd|phrase)|pwd|secret|token|credential|signature|cookie|session[_.\-]?id"
    r"|(?:api|access|private|account|(?:pre)?shared)[_.\-]?key|[_.\-]key)"
)
_SHORT: Final = r"(?:auth|pass|passcode|psk|pw|sig|otp)"  # telling only where a name ends with them: not `passive`
_TELLING_NAME: Final = compile_one(rf"(?i){_TELLING}|{_SHORT}$|authorization")
_HOST_NAMES: Final = frozenset({"host", "hostname", "nodeName", "node"})
_QUOTE: Final = r"\\?[\"']?"
_ESCAPED: Final = r"(?:\\\S|\\[ \t][^\s\"'\\\-])"  # no blank before a flag: it would hide that in place of its value
_BARE: Final = rf"(?:[^\s\"'\\]|{_ESCAPED})"
_QUOTED: Final = r"\\?\"((?:[^\"\\\n]|\\.)+)|'((?:[^'\"\\\n]|\\.)+)"
_IS: Final = rf"{_QUOTE}[ \t]{{0,20}}(?:=>|:=|=|:(?:\s{{0,20}}))[ \t]{{0,20}}"
_COLOURS: Final = compile_one(r"(?:\\(?:x1?)?)*(?:\x1b|\\x1b)(?:\[[0-9;]*[mK]?)?")  # and nothing joins to one more
# `secret: token: `, `--db-password `; and what may stand between these and the value.
_NAME: Final = rf"(?:{_WORD}{_TELLING}{_WORD}|{_WORD}(?:authorization|{_SHORT}))"
_FLAG: Final = rf"(?:--?[A-Za-z0-9_\-]*{_TELLING}[A-Za-z0-9_\-]*|--[A-Za-z0-9_\-]*{_SHORT}|bind_?pw)[ \t]+"
_INSIDE: Final = rf"(?:[\[{{]\s{{0,20}}(?:{_QUOTE}\w{{1,40}}{_IS})?)?"  # "token": {"value": "x"}
_PAIR: Final = rf"(?:name|key){_IS}{_QUOTE}{_NAME}{_QUOTE}[,\s]\s{{0,20}}{_QUOTE}value{_IS}"  # name: TOKEN, value: x
_LEAD: Final = rf"(?:{_QUOTE}{_NAME}{_IS}{_INSIDE}|{_QUOTE}{_PAIR}|{_FLAG})"
_LEADS: Final = rf"{_LEAD}(?:{_LEAD}|(?:bearer|basic|-u)[ \t]+)*"
_NUMBERS: Final = r"\d+(?:\.\d+){3,}"
_FOUR: Final = 4
_LARGEST_OCTET: Final = 255
_KEPT_WHOLE: Final = {  # of a rule file, to be compared; of a device
    "sha256": compile_one("[0-9a-f]{64}"),
    "serial-num": compile_one("(?i)(?:0x)?[0-9a-f]+"),
}
_PLACEHOLDER: Final = compile_one(r"<[a-z]+-\d+>")


def _nothing(_: bytes) -> bool:
    return False


class _Pass(NamedTuple):
    """One look over the text.

    Args:
        kind: of the placeholder.
        pattern: its groups are alternatives of the value; a match in which none takes part is left alone, and without
            groups all of it is the value.
        keeps: tells of a value that it harms nobody.
    """

    kind: str
    pattern: str
    keeps: Callable[[bytes], bool] = _nothing


def _is_plain(value: bytes) -> bool:
    """Tell whether a long run is a word or a number rather than a key: it lacks a case, or digits."""
    return value.lower() == value or value.upper() == value or not any(digit in value for digit in _DIGITS)


def _is_no_four(value: bytes) -> bool:
    """Tell whether no four of dotted numbers in a row are an IPv4 address: versions have a 535 or a 01 among them."""
    numbers = value.split(b".")
    octets = [_is_octet(number) for number in numbers]
    octets[0] |= len(numbers[0]) >= _FOUR  # something else stands before it, or behind it
    octets[-1] |= len(numbers[-1]) >= _FOUR
    fours = (octets[at : at + _FOUR] for at in range(len(octets) - _FOUR + 1))
    return value in _EVERYWHERE or not any(all(four) for four in fours)


def _is_octet(number: bytes) -> bool:
    return len(number) < _FOUR and int(number) <= _LARGEST_OCTET and (number == b"0" or number[:1] != b"0")


def _is_no_address(value: bytes) -> bool:
    """Tell whether groups of hex digits are something else than an IPv6 address, such as a bus address."""
    return b"::" not in value and value.count(b":") < _IPV6_GROUPS - 1


def _is_unit(value: bytes) -> bool:
    return value.lower().endswith(tuple(unit.encode() for unit in _UNITS))


def _has_no_letter(value: bytes) -> bool:
    return value.lower() == value.upper()


def _is_no_host(value: bytes) -> bool:
    """Tell whether a dotted run is something else than a private host name: a file, a version, a vendor's site."""
    name = value.lower()
    return _PUBLIC.search(name) is not None or _DOMAIN.search(name) is None


# AWS_SECRET_ACCESS_KEY=wJalr  "token": "abc"  password = 'a b'  --db-password hunter2  --password=--hunter2
_GIVEN: Final = _Pass(
    _HIDDEN,
    rf"(?i){_LEADS}(?:{_QUOTED}|((?:[^\s\"'\\\-]|-[^\s\"'\\\-]|{_ESCAPED}){_BARE}*))"
    rf"|{_NAME}{_QUOTE}=(--[^\s\"'\\\-]{_BARE}*)",
)
_PASSES: Final = (
    _Pass(_HIDDEN, r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----\s*([^\s\-<](?:(?:[^\-<]|-[^\-<])*[^\s\-<])?)"),
    # audit: type=1309 audit(1764.123:456): argc=3 a0="mysql" a1=2D707373
    _Pass(_HIDDEN, r"audit\([0-9.:]+\)[ \t]*:[ \t]*([^\n]+)|audit: (?:EXECVE|PROCTITLE|USER_[A-Z]+)[ \t]+([^\n]+)"),
    _GIVEN,
    # Authorization: AWS4-HMAC-SHA256 Credential=AKIA.../us-east-1/ec2/aws4_request, Signature=...
    _Pass(_HIDDEN, rf"(?i)(?:authorization|cookie){_IS}{_QUOTE}([^\"'\n]+)"),
    # mysql -phunter2  sshpass -p hunter2  curl -u me:hunter2
    _Pass(_HIDDEN, r"(?:mysql|mariadb)[^\n]*?\s-p([^\s\"']+)|sshpass\s+-p\s*[\"']?([^\s\"']+)"),
    _Pass(_HIDDEN, r"(?:\s-u[ =]?|--(?:proxy-)?user[ =])[\"']?([^\s:\"'<>]+:[^\s\"']+)"),
    _Pass(_HIDDEN, r"(?i)(?:bearer[ \t]+([\w+/=.~\-]{8,})|basic[ \t]+([\w+/=]{16,}))"),
    # https://me:hunter2@example.com  me:hunter2@tcp(db:3306)
    _Pass(_HIDDEN, r"[A-Za-z][A-Za-z0-9+.\-]*://(?:([^\s/\"'<>:]*:[^\s\"]+)|([^\s/\"'<>]+))@"),
    _Pass(_HIDDEN, r"([^\s:\"'<>/@]+:[^\s\"']*)@(?:tcp|udp|unix)\d?\("),
    _Pass(
        _HIDDEN,
        r"(?:AKIA|ASIA|AROA|AIDA|AGPA|AIPA|ANPA|ANVA|APKA|ABIA|ACCA|ASCA)[A-Z0-9]{12,}"
        r"|eyJ[\w\-]{5,}\.[\w\-]+(?:\.[\w\-]*)?|gh[opsur]_\w{16,}|github_pat_\w{16,}|glpat-[\w\-]{15,}"
        r"|npm_[A-Za-z0-9]{30,}|pypi-Ag[\w\-]{10,}|nvapi-[\w\-]{16,}|hv[sb]\.[\w\-]{16,}|[rs]k_(?:live|test)_\w{10,}"
        r"|\$(?:[156y7]|2[abxy]|gy|argon2\w*)\$[\w./$=,+\-]{8,}"  # hashes of passwords
        r"|xox[abeoprs]-[\w\-]{8,}|hf_[A-Za-z0-9]{16,}|AIza[\w\-]{30,}|k8s-aws-v1\.[\w\-]+",
    ),
    _Pass(_HIDDEN, r"(?:^|[^A-Za-z0-9])(sk-[A-Za-z0-9]{20,})"),
    _Pass(_HIDDEN, r"sk-[\w\-]{16,}|[A-Za-z0-9+/]{10,}==|[A-Za-z0-9+/]{40,}={0,2}", _is_plain),
    _Pass("ip", _ADDRESS_NAME),
    _Pass("email", r"[\w.%+\-]+@[A-Za-z0-9\-]+(?:\.[A-Za-z0-9\-]+)+", _is_unit),
    _Pass("ip", rf"(?i)version[ \t:=]{{0,3}}{_NUMBERS}|({_NUMBERS})", _is_no_four),
    _Pass("ip", r"(?i)(?:[23][0-9a-f]{3}|f[c-f][0-9a-f]{2})(?::[0-9a-f]{0,4}){2,7}", _is_no_address),
    _Pass("mac", r"(?i)[0-9a-f]{2}(?::[0-9a-f]{2}){5,}|[0-9a-f]{2}(?:-[0-9a-f]{2}){5,}"),
    _Pass(
        "account",
        r"(?i)(?:arn:[a-z\-]*:[a-z0-9\-]*:[a-z0-9\-]*:"
        rf"|(?:account|owner)(?:[_ \-]?id)?{_QUOTE}[ \t]{{0,3}}[:=]?[ \t]{{0,3}}"
        rf"{_QUOTE})(\d{{12}}|\d{{4}}-\d{{4}}-\d{{4}})|(\d{{12}})\.dkr\.ecr"
        r"|://[^\s\"']*?/(\d{12}|<account-\d+>)(?:\D|$)",  # https://sqs.us-east-1.amazonaws.com/123456789012/queue
    ),
    _Pass(USER, r"/(?:home|Users)/([^/\s\"'\\<>:,]+)"),
    _Pass(
        HOST,
        rf"(?i)(?:hostname{_QUOTE}(?:[ \t]{{0,3}}:[ \t]{{0,3}}|[ \t]{{1,3}}=[ \t]{{1,3}}|=)|host=){_QUOTE}([\w.\-]+)",
        _has_no_letter,
    ),
    _Pass(
        "hex", rf"serial-num(?:=|{_QUOTE}:[ ]?\\?[\"'])(?:0x)?[0-9a-fA-F]+|([0-9a-fA-F]{{32,}})"
    ),  # ids, digests, keys
    _Pass(HOST, r"[\w\-]+(?:\.[\w\-]+)+", _is_no_host),
    _GIVEN,  # again, for what the passes between have made of a value that was found in part
)


class Redactor:
    """Takes secrets, addresses and names out of texts, and remembers which placeholder stands for what.

    Args:
        names: of this host and its Node; they go wherever they stand, but for those too short or too common to be told
            from other words (see `too_common`).
        keep: kinds to leave alone: HOST, USER.
    """

    def __init__(self, names: Iterable[str] = (), *, keep: Iterable[str] = ()) -> None:
        self.places: dict[str, int] = {}  # of each kind, how many places were redacted
        self._numbers: dict[tuple[str, bytes], int] = {}
        self._values: dict[str, int] = {}
        wanted = {name.lower() for name in names if name}
        wanted |= {name.partition(".")[0] for name in wanted}
        self.too_common = sorted(name for name in wanted if _is_common(name))
        own = sorted(wanted - set(self.too_common), key=lambda name: (-len(name), name))
        self._own = {name.encode() for name in own}
        self._keep = frozenset(keep)
        passes = [each for each in _PASSES if each.kind not in self._keep]
        if own and HOST not in self._keep:
            passes.insert(1, _Pass(HOST, "(?i)" + "|".join(re2.escape(name) for name in own)))
        self._passes = [(each, compile_one(each.pattern)) for each in passes]

    @property
    def values(self) -> dict[str, int]:
        """Of each kind, how many different values were redacted."""
        return dict(sorted(self._values.items()))

    def text(self, text: str) -> str:
        """Redact a text; lone surrogates, which no file holds, become question marks."""
        return self.raw(text.encode("utf-8", "replace")).decode("utf-8", "replace")

    def raw(self, text: bytes) -> bytes:
        """Redact bytes of any encoding that has ASCII in it."""
        text = _COLOURS.sub(b"", text)
        for each, pattern in self._passes:
            text = pattern.sub(partial(self._instead, each), text)
        return text

    def tree(self, value: Any, key: str = "", *, is_told: bool = False) -> Any:
        """Redact what JSON holds, so that it stays JSON.

        Args:
            value: null, booleans, numbers, texts, and lists and objects of them.
            key: under which it stands.
            is_told: a name around it tells that it is secret.
        """
        is_told = is_told or _is_telling(key)
        if isinstance(value, dict):
            pair = _is_telling(str(value.get("name", value.get("key", ""))))
            return {
                self.text(str(name)): self.tree(inner, str(name), is_told=is_told or (pair and name == "value"))
                for name, inner in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.tree(inner, key, is_told=is_told) for inner in value]
        if value is None or isinstance(value, bool):
            return value
        if is_told:
            return self._whole(_HIDDEN, str(value))
        return self._leaf(value, key) if isinstance(value, str) else value

    def _leaf(self, value: str, key: str) -> str:
        raw = value.encode("utf-8", "replace")
        keeps = _KEPT_WHOLE.get(key)
        if keeps and keeps.fullmatch(raw):
            return value
        is_host = key in _HOST_NAMES and HOST not in self._keep and not _ADDRESS.fullmatch(raw)
        return self._whole(HOST, value) if is_host else self.text(value)

    def _whole(self, kind: str, value: str) -> str:
        raw = value.encode("utf-8", "replace")
        return value if not raw or _PLACEHOLDER.fullmatch(raw) else self._placeholder(kind, raw).decode()

    def _instead(self, each: _Pass, match: Any) -> bytes:
        whole: bytes = match.group(0)
        groups = range(1, match.re.groups + 1) if match.re.groups else (0,)
        span = next((match.span(number) for number in groups if match.start(number) >= 0), None)
        if span is None:
            return whole
        start, end = span[0] - match.start(), span[1] - match.start()
        value = whole[start:end]
        if each.keeps(value) or _PLACEHOLDER.fullmatch(value):
            return whole
        return whole[:start] + self._placeholder(each.kind, value) + whole[end:]

    def _placeholder(self, kind: str, value: bytes) -> bytes:
        self.places[kind] = self.places.get(kind, 0) + 1
        key = (kind, value if kind == _HIDDEN else self._same(value.lower()))
        if key not in self._numbers:
            self._numbers[key] = self._values[kind] = self._values.get(kind, 0) + 1
        return f"<{kind}-{self._numbers[key]}>".encode()

    def _same(self, value: bytes) -> bytes:
        """Tell what all ways to write a value have in common."""
        return value.partition(b".")[0] if value in self._own or value.startswith(_ADDRESS_NAMES) else value


def _is_telling(name: str) -> bool:
    return _TELLING_NAME.search(name.encode("utf-8", "replace")) is not None


def _is_common(name: str) -> bool:
    return len(name) < _SHORTEST_NAME or not name.isascii() or name in _COMMON_WORDS

"""Make the keys and certificates of one test cluster with openssl.

It must not be used for anything that lives longer than a test run: keys are neither protected nor renewed.
"""

import subprocess
from pathlib import Path

_DAYS = "2"


def write_key(path: Path) -> Path:
    """Write a new P-256 private key."""
    _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", str(path))
    return path


def write_public_key(key: Path, path: Path) -> Path:
    """Write the public half of a private key."""
    _openssl("pkey", "-in", str(key), "-pubout", "-out", str(path))
    return path


class Authority:
    """A certificate authority in a folder.

    Args:
        folder: Gets ``ca.crt`` and ``ca.key``.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.certificate = folder / "ca.crt"
        self._key = write_key(folder / "ca.key")
        _openssl(
            *("req", "-x509", "-new", "-key", str(self._key), "-subj", "/CN=chipwarden-tests", "-days", _DAYS),
            *("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign"),
            *("-out", str(self.certificate)),
        )

    def issue(self, name: str, subject: str, *, alternatives: str | None = None) -> tuple[Path, Path]:
        """Write a key and a certificate signed by this authority.

        Args:
            name: Of the two files.
            subject: As openssl writes it; O is the group and CN the user that Kubernetes sees in a client.
            alternatives: subjectAltName of a server, as openssl writes it; None for a client.

        Returns:
            Certificate and key.
        """
        key = write_key(self._folder / f"{name}.key")
        request, extensions = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        certificate = self._folder / f"{name}.crt"
        usage = "clientAuth" if alternatives is None else f"serverAuth\nsubjectAltName = {alternatives}"
        extensions.write_text(f"extendedKeyUsage = {usage}\nauthorityKeyIdentifier = keyid\n")
        _openssl("req", "-new", "-key", str(key), "-subj", subject, "-out", str(request))
        _openssl(
            *("x509", "-req", "-in", str(request), "-CA", str(self.certificate), "-CAkey", str(self._key)),
            *("-CAcreateserial", "-days", _DAYS, "-extfile", str(extensions), "-out", str(certificate)),
        )
        return certificate, key


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=30)

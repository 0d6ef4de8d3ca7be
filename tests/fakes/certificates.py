# SPDX-License-Identifier: Apache-2.0
"""Certificate authorities and their certificates, which openssl makes for one test."""

from dataclasses import dataclass
from pathlib import Path

from sluice.runtime.command import run


@dataclass(frozen=True)
class Pair:
    key: Path
    certificate: Path


class Authority:
    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._own = self._pair(name)
        self._openssl("req", "-x509", *self._new(self._own), "-out", self._own.certificate)

    @property
    def certificate(self) -> Path:
        return self._own.certificate

    def issue(self, name: str) -> Pair:
        pair = self._pair(f"{self._name}-{name}")
        request = self._folder / f"{name}.csr"
        self._openssl("req", *self._new(pair), "-out", request)
        signed = ("-CA", self._own.certificate, "-CAkey", self._own.key, "-CAcreateserial", "-days", "2")
        self._openssl("x509", "-req", "-in", request, *signed, "-out", pair.certificate)
        return pair

    def _pair(self, name: str) -> Pair:
        return Pair(self._folder / f"{name}.key", self._folder / f"{name}.crt")

    def _new(self, pair: Pair) -> tuple[object, ...]:
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", pair.key)
        return *key, "-subj", f"/CN={pair.key.stem}"

    def _openssl(self, *argv: object) -> None:
        run(["openssl", *map(str, argv)])

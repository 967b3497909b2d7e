# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests, made with the openssl command when they are needed."""
import os
import subprocess

SUBJECT_NAMES = {
    "server": "DNS:localhost,IP:127.0.0.1,IP:::1",
    "other_name": "DNS:elsewhere.test",
    "expired": "DNS:localhost,IP:127.0.0.1",
    "client": "DNS:agent.test",
    "fleet": "IP:192.0.2.1,IP:198.51.100.1",
}


class Certificates:
    """Files NAME.pem and NAME.key in a directory: `ca` signs `server` (for localhost and its addresses), `other_name`
    (for another host), `expired`, `client` and `fleet` (for the addresses of test_fleet.py); `other_ca` signs `unknown`, a client that `ca` does not know."""

    def __init__(self, directory):
        self.directory = directory
        for authority in ("ca", "other_ca"):
            self._authority(authority)
        for name in SUBJECT_NAMES:
            self._sign(name, "ca", SUBJECT_NAMES[name], past=name == "expired")
        self._sign("unknown", "other_ca", "DNS:unknown.test")

    def path(self, name):
        return os.path.join(self.directory, name)

    def certificate(self, name):
        return self.path(name + ".pem")

    def key(self, name):
        return self.path(name + ".key")

    def read(self, path):
        with open(self.path(path), "rb") as file:
            return file.read()

    def _openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], cwd=self.directory, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.PIPE, timeout=60)

    def _authority(self, name):
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                      "-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign", "-keyout", name + ".key", "-out", name + ".pem")

    def _sign(self, name, authority, subject_names, past=False):
        with open(self.path(name + ".ext"), "w", encoding="utf-8") as file:
            file.write(f"subjectAltName={subject_names}\nbasicConstraints=CA:FALSE\n")
        self._openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                      "-keyout", name + ".key", "-out", name + ".csr")
        # The validity of a certificate of `x509 -req` starts now, so an expired certificate has a duration of minus one day.
        self._openssl("x509", "-req", "-in", name + ".csr", "-CA", authority + ".pem", "-CAkey", authority + ".key", "-CAcreateserial",
                      "-days", "-1" if past else "2", "-extfile", name + ".ext", "-out", name + ".pem")

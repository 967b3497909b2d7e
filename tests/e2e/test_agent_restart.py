# SPDX-License-Identifier: Apache-2.0
"""An exporter that cannot be started again, because its program, certificates or spool changed while the agent runs."""
import errno
import os
import shutil
import signal
import time

import certificates
import lib
import scripted_server as scripted
from test_agent import AgentCase


class Restart(AgentCase):
    def certificates(self):
        """Certificates, and the path of a copy of the authority's."""
        directory = os.path.join(self.directory, "tls")
        os.mkdir(directory)
        made = certificates.Certificates(directory)
        copy = os.path.join(directory, "copy.pem")
        shutil.copy(made.certificate("ca"), copy)
        return made, copy

    def test_exporter_with_a_damaged_certificate_is_tried_again_with_pauses(self):
        """A message names what the exporter cannot use. It is started again less and less often, and continues where it was once the file is repaired."""
        made, ca = self.certificates()
        good = lib.read(ca)
        with scripted.Server(certificate=made.certificate("server"), key=made.key("server")) as server, lib.Burner(), \
                self.agent(f"https://localhost:{server.port}", {"export.ca_file": ca}) as running:
            self.wait_for_status(running, "a delivery", lambda s: s["delivered"])
            with open(ca, "w", encoding="ascii") as f:
                f.write("no certificate\n")
            os.kill(running.pid("exporter"), signal.SIGKILL)
            fault = "cannot use export.endpoint or its certificates"
            self.wait_for("four attempts", lambda: running.said().count(fault) >= 4)
            self.assertFalse(running.ready())
            # After the fourth the pauses are 0.8, 1.6 and 3.2 s.
            time.sleep(5)
            self.assertLessEqual(running.said().count(fault), 8, running.said())
            self.assertIn("a role ended unexpectedly; it is restarted: role=bulkhead-exp status=2", running.said())
            with open(ca, "w", encoding="ascii") as f:
                f.write(good)
            self.wait_for("the agent to be ready", running.ready)
            before = running.status()["delivered"]
            self.wait_for_status(running, "more", lambda s: s["delivered"] > before)
            # The journal was not the reason, so it was kept.
            self.assertNotIn("dropping the samples", running.said())
            self.assertEqual(running.stop()["lost"], 0)

    def test_exporter_that_is_restarted_without_its_files_uses_the_old_ones(self):
        made, ca = self.certificates()
        with scripted.Server(certificate=made.certificate("server"), key=made.key("server")) as server, lib.Burner(), \
                self.agent(f"https://localhost:{server.port}", {"export.ca_file": ca}) as running:
            self.wait_for_status(running, "a delivery", lambda s: s["delivered"])
            os.unlink(ca)
            os.chmod(running.spool, 0)
            before = running.status()["delivered"]
            running.kill("exporter")
            self.wait_for("the agent to be ready", running.ready)
            status = self.wait_for_status(running, "more", lambda s: s["delivered"] > before)
            self.assertEqual(status["spool"]["disk_error"], errno.EACCES)
            self.assertEqual(running.said().count(f"path={ca} error=No such file"), 1)
            self.assertIn("the next exporter gets the certificates, key and headers of the last one", running.said())
            self.assertEqual(running.stop()["lost"], 0)

    def test_restarted_exporter_that_cannot_run_is_reported_and_tried_again(self):
        """The exporter's program is replaced while the agent runs: by one that the kernel refuses, by one that never listens, and by itself."""
        programs = os.path.join(self.directory, "bin")
        os.mkdir(programs)
        for name in os.listdir(lib.BIN):
            if name.startswith("bulkhead-"):
                os.symlink(os.path.join(lib.BIN, name), os.path.join(programs, name))
        shutil.copy(lib.BULKHEAD, programs)
        exporter = os.path.join(programs, "bulkhead-exporter-otlp")

        def replace(text):
            os.unlink(exporter)
            with open(exporter, "w", encoding="ascii") as f:
                f.write(text)
            os.chmod(exporter, 0o755)

        with scripted.Server() as server, lib.Burner(), self.agent(server) as running:
            running.stop()
            running.command[0] = os.path.join(programs, "bulkhead")
            running.start()
            self.wait_for_status(running, "a delivery", lambda s: s["delivered"])
            replace("no program")
            os.kill(running.pid("exporter"), signal.SIGKILL)
            self.wait_for("four attempts", lambda: running.said().count("cannot start " + exporter) >= 4)
            replace("#!/bin/sh\nexec sleep 1000\n")
            self.wait_for("the end of an exporter that does not listen", lambda: "it will be killed and restarted: role=bulkhead-exp error=Connection timed out" in running.said())
            self.assertLessEqual(running.said().count("cannot start " + exporter), 8, running.said())
            os.unlink(exporter)
            os.symlink(os.path.join(lib.BIN, "bulkhead-exporter-otlp"), exporter)
            self.wait_for("the agent to be ready", running.ready)
            self.assertNotIn("dropping the samples", running.said())
            self.assertEqual(running.stop()["lost"], 0)


if __name__ == "__main__":
    lib.main()

"""What an upload says on a machine whose libcurl or libcrypto is missing or fails."""
import os
import unittest

import program
from program import IO, REFUSED

INTERNAL = 70
STAND_IN = os.environ.get("SHARDKIT_UPLOAD_STAND_IN",
                          str(program.ROOT / "build/tests/upload_stand_in/libupload_stand_in.so"))
CURL, CRYPTO = "libcurl.so.4", "libcrypto.so.3"


class UploadLibrariesTest(program.ProgramTest):
    def setUp(self):
        super().setUp()
        model = self.folder / "model"
        model.mkdir()
        (model / "config.json").write_text("{}")
        self.libraries = self.folder / "libraries"
        self.libraries.mkdir()
        for name in (CURL, CRYPTO):
            (self.libraries / name).symlink_to(STAND_IN)

    def damage(self, name):
        """The loader stops at what is no library: then there is none by this name."""
        (self.libraries / name).unlink(missing_ok=True)
        (self.libraries / name).write_text("no library")

    def assert_says(self, exit_code, text, fails=""):
        environment = dict(os.environ, HF_TOKEN="hf_secret", HOME=str(self.folder),
                           LD_LIBRARY_PATH=str(self.libraries), SHARDKIT_STAND_IN_FAILS=fails)
        done = self.run_program("upload", "model", "org/model", exit_code=exit_code,
                                env=environment)
        self.assertIn("shardkit: " + text, done.stderr)

    def test_no_libcurl(self):
        self.damage(CURL)
        self.damage("libcurl-gnutls.so.4")
        self.assert_says(REFUSED, "uploads need libcurl.so.4, which is not on this machine "
                                  "(Debian: libcurl4): %s: " % (self.libraries / CURL))

    def test_no_libcrypto(self):
        self.damage(CRYPTO)
        self.assert_says(REFUSED, "uploads need libcrypto.so.3, which is not on this machine "
                                  "(Debian: libssl3): ")

    def test_a_libcurl_that_fails(self):
        self.assert_says(REFUSED, "libcurl.so.4 does not start", fails="curl_global_init")
        self.assert_says(IO, "libcurl cannot make a connection's handle", fails="curl_easy_init")

    def test_a_libcrypto_that_fails(self):
        self.assert_says(REFUSED, "this libcrypto.so.3 has no SHA-256 or no SHA-1",
                         fails="EVP_MD_fetch")
        self.assert_says(INTERNAL, "libcrypto failed to make a digest", fails="EVP_DigestFinal_ex")


if __name__ == "__main__":
    unittest.main()

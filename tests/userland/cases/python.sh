# python3's own tests of what touches the kernel: which pass. Left out are those that need a network, which Darter has not and Linux not without one; and those that Linux
# does not pass here: scandir's inode numbers over its overlay, a file system of which nothing is used, and one that has a second for a start of python.
# needs: python3
cd /tmp || exit
cat >results.py <<'END'
import sys, unittest

class Kept(unittest.TestResult):
    """Prints one line for each test when all are over: warnings and what tests print come between otherwise."""
    def __init__(self):
        super().__init__()
        self.lines = {}
    def keep(self, test, how):
        self.lines[test.id()] = how
    def addSuccess(self, test): self.keep(test, "ok")
    def addError(self, test, error): self.keep(test, "ERROR")
    def addFailure(self, test, error): self.keep(test, "FAIL")
    def addSkip(self, test, reason): self.keep(test, "skipped")
    def addExpectedFailure(self, test, error): self.keep(test, "expected failure")
    def addUnexpectedSuccess(self, test): self.keep(test, "unexpected success")
    def addSubTest(self, test, part, error):
        if error is not None:
            self.keep(test, "FAIL")

kept = Kept()
unittest.defaultTestLoader.loadTestsFromName("test.test_" + sys.argv[1]).run(kept)
with open("results", "w") as out:
    for test, how in sorted(kept.lines.items()):
        print(test, how, file=out)
END
for t in ${TESTS:-os mmap threading signal tempfile posix subprocess shutil pathlib fcntl select selectors pty resource io fileio \
    asyncio.test_unix_events asyncio.test_subprocess multiprocessing_fork}; do
    rm -f results
    timeout 900 python3 -W ignore results.py "$t" >/dev/null 2>&1 </dev/null || echo "$t: status $?"
    grep -v 'TestSendfile\|_inetsock\|test_invalid_socket\|test_set_wakeup_fd_socket_result\|TestScandir.test_attributes\|test_disk_usage\|test_check_output_timeout' results
done

# python3's own tests of what touches the kernel: which pass. Left out are those that need a network, which Darter has not and Linux not without one.
# needs: python3
cd /tmp || exit
results() {
    timeout 600 python3 -m unittest -v "test.test_$1" 2>&1 </dev/null |
        sed -n "s/^\\(test_[a-zA-Z0-9_]* ([^)]*)\\).* \\.\\.\\. .*\\(ok\\|FAIL\\|ERROR\\|skipped\\|expected failure\\).*/$1: \\1 \\2/p" |
        grep -v 'TestSendfile\|test_invalid_socket\|test_set_wakeup_fd_socket_result' | sort
}
for t in os mmap threading signal tempfile posix subprocess shutil pathlib fcntl select selectors pty resource io fileio \
    asyncio.test_unix_events asyncio.test_subprocess multiprocessing_fork; do
    results $t
done

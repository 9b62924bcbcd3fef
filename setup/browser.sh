#!/bin/sh
# Installs Debian's Chromium, in which a hosted test looks at the page of `darter bench --report`. `make browser` runs it. Nothing else
# needs it: without it that test says that it is skipped. As a user without root, prints the command.
set -eu
command -v chromium >/dev/null 2>&1 && exit 0
install="apt-get install -q -y --no-install-recommends chromium"
if [ "$(id -u)" != 0 ]; then
    printf 'setup: this needs root; run it:\n    %s\n' "$install" >&2
    exit 1
fi
printf 'setup: + %s\n' "$install" >&2
DEBIAN_FRONTEND=noninteractive $install </dev/null >&2

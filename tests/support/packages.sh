#!/bin/sh
# System packages that the tests need: a compiler with sanitizers, git, peers to measure against, container engines,
# of which the tests start private ones, what boots another kernel, builds images, fetches things, and watches.
# As root with apt they are installed; otherwise what is missing is named, and the tests say what they skip.
# With `all`, for `make test-all`: every network client of the table in docs/network.md too, some 700 MB.
set -eu

missing=
clients=
[ "${1:-}" = all ] && clients="sshd:openssh-server go:golang-go jlink:default-jdk-headless npm:npm \
    riscv64-linux-gnu-gcc:gcc-riscv64-linux-gnu qemu-riscv64-static:qemu-user-static"
for pair in cc:gcc musl-gcc:musl-tools git:git make:make bwrap:bubblewrap firejail:firejail setpriv:util-linux \
    dockerd:docker.io podman:podman runc:runc busybox:busybox-static qemu-system-x86_64:qemu-system-x86 \
    mksquashfs:squashfs-tools mmdebstrap:mmdebstrap curl:curl wget:wget node:nodejs strace:strace \
    apparmor_parser:apparmor $clients; do
    PATH="$PATH:/usr/sbin" command -v "${pair%%:*}" >/dev/null 2>&1 || missing="$missing ${pair#*:}"
done
# A static launcher needs the C library's archive.
printf 'int main(void){return 0;}' >"${TMPDIR:-/tmp}/corral-cc-$$.c"
if ! cc -static -o /dev/null "${TMPDIR:-/tmp}/corral-cc-$$.c" 2>/dev/null; then
    missing="$missing libc6-dev"
fi
rm -f "${TMPDIR:-/tmp}/corral-cc-$$.c"
# And the numbers of system calls of another machine are in its own headers, which a cross compiler may lack.
if [ -n "$clients" ] && [ ! -e /usr/riscv64-linux-gnu/include/asm/unistd.h ]; then
    missing="$missing libc6-dev-riscv64-cross"
fi
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing:$missing"
    apt-get update -qq
    # No service of theirs is to be started here: the tests have their own.
    if [ -n "$clients" ] && [ ! -e /usr/sbin/policy-rc.d ]; then
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
        printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
        chmod 755 /usr/sbin/policy-rc.d
    fi
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
    echo "missing on this machine (install them as root):$missing" >&2
fi

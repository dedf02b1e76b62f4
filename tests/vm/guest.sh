#!/bin/sh
# Process 1 of the guest: make it look like a host of today, run what the job says, tell the host how it ended.
# The job (made by run.py) says PROJECT, KEEP (paths that must be seen) and `job`, a function.
set -u
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 TERM=dumb
CGROUPS=/sys/fs/cgroup
CONTROLLERS="+cpu +memory +pids +io"
RESULT=/dev/virtio-ports/result

make_host() {
    mount -t proc -o nosuid,nodev,noexec proc /proc
    mount -t sysfs -o nosuid,nodev,noexec sysfs /sys
    mount -t devtmpfs -o mode=755,nosuid devtmpfs /dev
    mkdir -p /dev/pts /dev/shm /dev/virtio-ports
    mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts
    mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs /dev/shm
    for link in fd:/proc/self/fd stdin:/proc/self/fd/0 stdout:/proc/self/fd/1 stderr:/proc/self/fd/2; do
        ln -s "${link#*:}" "/dev/${link%%:*}"
    done
    chmod 666 /dev/tty /dev/ptmx
    for port in /sys/class/virtio-ports/*; do # udev would do this
        [ ! -s "$port/name" ] || ln -s "../${port##*/}" "/dev/virtio-ports/$(cat "$port/name")"
    done
    mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 $CGROUPS
    echo "$CONTROLLERS" >$CGROUPS/cgroup.subtree_control
    echo corral-vm >/proc/sys/kernel/hostname
    busybox ip link set lo up
    make_writable
    install -d -o 1000 -g 1000 -m 700 /home/tester
}

# The image is read-only. What lies in a directory that must be writable, and is needed, is shown there again.
make_writable() {
    mount --bind / /mnt
    mount -t tmpfs -o mode=1777,nodev tmpfs /tmp # set-user-id programs are tested there
    mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs /var/tmp
    mount -t tmpfs -o mode=755,nosuid,nodev tmpfs /home
    mount -t tmpfs -o mode=755,nosuid,nodev tmpfs /root # 755: the interpreter may lie beneath
    for path in $KEEP; do
        if [ ! -e "$path" ]; then
            mkdir -p "$path"
            mount --bind "/mnt$path" "$path"
        fi
    done
    umount /mnt
}

# session NAME UID: a group that belongs to the user, with the user's session in it, as a login makes them.
session() {
    group=$CGROUPS/$1
    mkdir -p "$group/session"
    echo "$CONTROLLERS" >"$group/cgroup.subtree_control"
    for place in "$group" "$group/session"; do
        chown "$2:$2" "$place" "$place/cgroup.procs" "$place/cgroup.subtree_control" "$place/cgroup.threads"
    done
}

# as_user NAME UID HOME COMMAND...: the command in the user's session; its status is noted.
as_user() {
    name=$1 uid=$2 home=$3
    shift 3
    echo "=== as $name: $*"
    (
        read -r process _ </proc/self/stat
        echo "$process" >"$CGROUPS/$name/session/cgroup.procs"
        cd "$PROJECT" && export HOME="$home" USER="$name" LOGNAME="$name" PYTHONDONTWRITEBYTECODE=1
        [ "$uid" = 0 ] || set -- setpriv --reuid="$uid" --regid="$uid" --init-groups "$@"
        exec "$@"
    )
    echo "$name $?" >"/run/status-$name"
    echo "=== as $name: status $(cut -d' ' -f2 "/run/status-$name") after $(cut -d. -f1 /proc/uptime) seconds"
}

# beside NAME UID HOME COMMAND...: the same at the same time as others, and shown when `show` is called.
beside() {
    as_user "$@" >"/run/output-$1" 2>&1 &
}

show() {
    wait
    cat "/run/output-$1"
}

. /run/job
make_host
exec </dev/hvc0 >/dev/hvc0 2>&1
stty -opost
job
{ cat /run/status-* && echo "done"; } >$RESULT
busybox poweroff -f

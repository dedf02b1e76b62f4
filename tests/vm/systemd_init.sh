#!/bin/busybox sh
# The first program of the guest: load the modules, mount the image with a writable layer, and become systemd.
PATH=/bin
busybox mount -t devtmpfs devtmpfs /dev
for module in $(busybox cat /modules/order); do
    busybox insmod "/modules/$module" || busybox echo "cannot load $module"
done
busybox mkdir -p /layer
busybox mount -t squashfs -o ro /dev/vda /image || busybox poweroff -f
busybox mount -t tmpfs -o mode=755 tmpfs /layer
busybox mkdir -p /layer/upper /layer/work /root
busybox mount -t overlay -o lowerdir=/image,upperdir=/layer/upper,workdir=/layer/work overlay /root
exec busybox switch_root /root /sbin/init

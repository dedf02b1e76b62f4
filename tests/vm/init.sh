#!/bin/busybox sh
# The first program of the guest: load the modules, mount the image, and go on inside it with guest.sh.
PATH=/bin
busybox mount -t devtmpfs devtmpfs /dev
for module in $(busybox cat /modules/order); do
    busybox insmod "/modules/$module" || busybox echo "cannot load $module"
done
busybox mount -t squashfs -o ro /dev/vda /image || busybox poweroff -f
busybox mount -t tmpfs -o mode=755 tmpfs /image/run
busybox cp /job /image/run/job
. /job
exec busybox switch_root /image /bin/sh "$PROJECT/tests/vm/guest.sh"

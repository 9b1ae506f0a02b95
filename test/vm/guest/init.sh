# Process 1 of the initramfs. What is below /guest is written by the host:
# modules (a list of files to load), disk, network (there or not), files (to copy over the disk's).
/bin/busybox mkdir -p /dev /proc /sys /run /tmp /mnt
/bin/busybox --install -s /bin
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r module; do
	insmod "/guest/ko/$module" || echo "guest: cannot load $module"
done </guest/modules
# devtmpfs goes on when the root changes, and with it the shell.
mkdir -p /dev/.guest
cp /bin/busybox /guest/serve.sh /guest/begin.sh /dev/.guest/
if [ -e /guest/network ]; then
	ip link set lo up
	ip addr add 10.0.2.15/24 dev eth0
	ip link set eth0 up
	ip route add default via 10.0.2.2
fi
if [ ! -e /guest/disk ]; then
	exec sh /dev/.guest/begin.sh
fi
tries=0
until [ -e /dev/vda ] || [ $tries = 100 ]; do
	sleep 0.1
	tries=$((tries + 1))
done
mount -t ext4 /dev/vda /mnt || { echo "guest: cannot mount the disk"; exit 1; }
[ -d /guest/files ] && cp -a /guest/files/. /mnt/
mkdir -p /mnt/dev /mnt/proc /mnt/sys
mount --move /dev /mnt/dev
mount --move /proc /mnt/proc
mount --move /sys /mnt/sys
exec switch_root /mnt /dev/.guest/busybox sh /dev/.guest/begin.sh disk

# Process 1 once the root is the last: starts the shell, then becomes the disk's init, or waits for
# processes that lost their parents.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
busybox=/dev/.guest/busybox
$busybox sh /dev/.guest/serve.sh &
[ "$1" = disk ] && exec /sbin/init
while :; do
	$busybox sleep 3600
done

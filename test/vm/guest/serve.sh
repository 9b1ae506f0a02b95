# Takes scripts from the second serial port, and answers; shell.go says how.
busybox=/dev/.guest/busybox
dir=/dev/.guest
for word in $($busybox cat /proc/cmdline); do
	case $word in guest.shell=*) port=/dev/${word#*=} ;; esac
done
# Without a line discipline of its own the port would echo, and cut lines.
$busybox stty -F "$port" raw -echo
exec 0<"$port" 1>"$port"
echo "guest ready"
while read -r tag script; do
	echo "$script" | $busybox base64 -d >$dir/script
	$busybox sh $dir/script </dev/null >$dir/output 2>&1
	status=$?
	# A background process may still write: what is sent is what is there now.
	size=$($busybox wc -c <$dir/output)
	echo "$tag begin"
	$busybox head -c "$size" $dir/output | $busybox gzip -1 -c | $busybox base64
	echo "$tag end $status $size"
done

# Changes the configuration of a kubelet. It runs in a privileged container of the node, because a kubelet that is
# stopped starts no program, and reaches the host by $HOST. Orders come as files in $ORDERS, which the kubelet writes: a
# kubelet that does not work brings no order to keep the change, and then the old configuration comes back.
# Everything may be interrupted and done again: the state files go before the new configuration comes, so a node that
# loses power starts with either configuration.
set -eu
say() { echo "tenon: $*"; }
on() { $HOST sh -ec "$1"; }
value() {
	printf '%s\n' "$args" | awk -v f="--$1" '$0 == f { getline; print; exit }
		index($0, f "=") == 1 { print substr($0, length(f) + 2); exit }'
}
fail() {
	say "failed: $*"
	exit 0
}
# Values become part of commands on the host, so only plain ones are taken. Any program may call itself kubelet; one in a
# container has another PID namespace than the host.
path() {
	case $2 in
	*[!A-Za-z0-9/._+:@-]* | */../* | */..) fail "the kubelet's $1 is not a path of letters, digits and /._+:@-" ;;
	'' | /*) ;;
	*) fail "the kubelet's $1 is not an absolute path" ;;
	esac
}
for f in $STATE_FILES; do
	case $f in
	cpu_manager_state | memory_manager_state) ;;
	*) fail "the plan removes a file that is no state file of a kubelet's managers" ;;
	esac
done
args=
for p in "$PROC"/[0-9]*; do
	if [ "$(cat "$p/comm" 2>/dev/null)" = kubelet ] &&
		[ "$(readlink "$p/ns/pid")" = "$(readlink "$PROC/1/ns/pid")" ]; then
		args=$(tr '\0' '\n' <"$p/cmdline")
		break
	fi
done
dir=${KUBELET_CONFIG_DIR:-$(value config-dir)}
file=${KUBELET_CONFIG:-$(value config)}
root=${KUBELET_ROOT:-$(value root-dir)}
root=${root:-/var/lib/kubelet}
path --config-dir "$dir"
path --config "$file"
path --root-dir "$root"
work=$root/tenon-change
if [ -n "$dir" ]; then
	target=$dir/99-tenon.conf
elif [ -n "$file" ]; then
	target=$file
else
	fail "no process named kubelet has --config or --config-dir: name its file or its directory"
fi

change() {
	case $1 in
	*[!A-Za-z0-9+/=]*) fail "the order's file is not base64" ;;
	esac
	on "mkdir -p '$work'
		if [ ! -e '$work/old' ] && [ ! -e '$work/none' ]; then
			if [ -e '$target' ]; then cp -p '$target' '$work/old.part' && mv '$work/old.part' '$work/old'
			else : >'$work/none'; fi
		fi
		if [ -e '$target' ]; then cp -p '$target' '$target.tenon'; fi
		echo '$1' | base64 -d >'$target.tenon'
		sync"
	say "stop the kubelet"
	on "$STOP"
	for f in $STATE_FILES; do
		say "put $f aside"
		on "if [ ! -e '$root/$f' ]; then :
			elif [ -e '$work/$f' ]; then rm -f '$root/$f'
			else mv '$root/$f' '$work/$f'; fi"
	done
	on ": >'$work/aside'"
	say "write $target"
	on "mv '$target.tenon' '$target'; sync"
	say "start the kubelet"
	on "$START" || say "the kubelet did not start"
}

undo() {
	if on "[ -e '$work/old' ] || [ -e '$work/none' ]"; then
		say "restore $target"
		on "$STOP" || :
		for f in $STATE_FILES; do
			on "if [ -e '$work/aside' ]; then rm -f '$root/$f'; fi
				if [ -e '$work/$f' ]; then cp -p '$work/$f' '$root/$f'; fi"
		done
		on "if [ -e '$work/old' ]; then cp -p '$work/old' '$target.tenon' && mv '$target.tenon' '$target'
			else rm -f '$target'; fi
			sync"
		on "$START" || say "the kubelet did not start"
		on "rm -rf '$work' '$target.tenon'"
	fi
	say restored
	exit 0
}

say "file $(on "if [ -e '$target' ]; then base64 '$target' | tr -d '\n'; fi")"
changed=
left=$WITHIN
while :; do
	case $(cat "$ORDERS/order" 2>/dev/null || :) in
	change)
		if [ -z "$changed" ]; then
			change "$(cat "$ORDERS/file")"
			changed=yes
			left=$WITHIN
		fi
		;;
	keep)
		on "rm -rf '$work'"
		say kept
		exit 0
		;;
	undo) undo ;;
	esac
	if [ "$left" -le 0 ]; then
		say "no order to keep the change came within $WITHIN seconds"
		undo
	fi
	left=$((left - 1))
	sleep 1
done

#!/bin/busybox sh
# The first process of a guest of tools/guest.py. /plan holds `limit` (seconds for each step) and `module` (its name),
# /programs the names of the programs in /tests, a line each. The kernel's messages go to the first serial line, what is
# said here and what the programs write to the second; lines that begin with `softcard-guest:` are for guest.py.
/bin/busybox mkdir -p /proc /sys /dev /tmp
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs devtmpfs /dev
/bin/busybox --install -s /bin
export PATH=/bin HOME=/
stty -F /dev/ttyS1 raw 2>/dev/null
exec </dev/null >/dev/ttyS1 2>&1
. /plan
mkfifo /tmp/ended
exec 3<>/tmp/ended
number=0

mark() { echo "softcard-guest: $*"; }

seconds() { cut -d ' ' -f 1 /proc/uptime; }

# Waits at most $1 seconds for the end of step $number; its status is in $code then.
ended() {
    while read -r -t "$1" whose code <&3; do
        [ "$whose" != "$number" ] || return 0
    done
    return 1
}

# step NAME COMMAND...: run it in a session of its own, at most `limit` seconds.
step() {
    name=$1
    shift
    number=$((number + 1))
    mark "begin $name"
    began=$(seconds)
    rm -f /tmp/pid
    { sh -c 'echo $$ >/tmp/pid; exec setsid "$@"' step "$@"; echo "$number $?" >&3; } &
    if ended "$limit"; then
        mark "end $name $code $began $(seconds)"
        return
    fi
    session=$(cat /tmp/pid)
    mark "late $name"
    look "$session"
    kill -9 "-$session" $(members "$session") 2>/dev/null
    if ended 5; then mark "end $name late $began $(seconds)"; else mark "end $name stuck $began $(seconds)"; fi
}

# The processes of a session. Behind the name in brackets: state, parent, group, session.
members() {
    cat /proc/[0-9]*/stat 2>/dev/null |
        awk -v session="$1" '{ process = $1; sub(/.*\) /, ""); if ($4 == session) print process }'
}

# What the processes of a session wait for.
look() {
    for process in $(members "$1"); do
        for thread in "/proc/$process/task"/*; do
            echo "process $process, thread ${thread##*/} ($(cat "$thread/comm")): state $(sed 's/.*) \(.\).*/\1/' "$thread/stat")"
            echo "  system call and arguments: $(cat "$thread/syscall")"
            echo "  kernel stack:"
            sed 's/^/    /' "$thread/stack"
        done
    done
    echo "/proc/interrupts:"
    cat /proc/interrupts
    echo "the end of the kernel's log:"
    dmesg | tail -n 40
}

# Has a driver taken the device?
bound() {
    for device in /sys/bus/pci/devices/*; do
        [ "$(cat "$device/vendor") $(cat "$device/device")" = "0x0666 0x0019" ] || continue
        [ ! -e "$device/driver" ] || return 0
        mark "unbound ${device##*/} (pci:v00000666d00000019): probe failed, or was not called; the module answers to $(
            strings /driver.ko | sed -n 's/^alias=//p' | tr '\n' ' ')"
        return
    done
    mark "unbound: there is none on the PCI bus"
}

mark up
echo 7 >/proc/sys/kernel/printk  # from here on pr_info and dev_info are shown
step insmod insmod /driver.ko
[ "$code" != 0 ] || bound
while read -r program <&4; do
    step "$program" "/tests/$program" 4<&-
done 4</programs
step rmmod rmmod "$module"
dmesg | grep -E 'BUG:|WARNING:|Oops:|blocked for more than' | while read -r line; do mark "log $line"; done
mark down
poweroff -f

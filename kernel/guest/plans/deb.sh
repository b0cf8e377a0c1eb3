# SPDX-License-Identifier: GPL-2.0-only
# The packages of the kernel on Debian with its own boot loader: installed, booted, crashed and its
# memory dumped, upgraded, booted, removed, and Debian's kernel again. Each boot is a stage, which
# /var/lib/stage counts. Boot with --boot; the packages lie on the other disk, in 1/ and 2/.
stage=$(cat /var/lib/stage 2> /dev/null || echo 1)
mount -o ro /dev/disk/by-label/packages /mnt
release=$(cat /mnt/release)
export DEBIAN_FRONTEND=noninteractive

# step NAME COMMAND...: it succeeds; how long it took, and its last lines if it did not
step() {
	name=$1; shift
	begun=$(cut -d. -f1 /proc/uptime)
	"$@" > /tmp/step 2>&1
	status=$?
	emit step "\"name\": \"$name\", \"seconds\": $(($(cut -d. -f1 /proc/uptime) - begun))"
	[ $status = 0 ] || tail -15 /tmp/step | sed 's/^/@@ note /'
	expect "$name" [ $status = 0 ]
}

# next: the following stage is that of the next boot
next() {
	echo $((stage + 1)) > /var/lib/stage
	sync
	systemctl reboot
	sleep 600
}

installed() { dpkg-query -W -f '${Version}' "$1" 2> /dev/null; }
menu() { grep -c "$1" /boot/grub/grub.cfg; }
# the files of the kernel that are there
left() {
	ls -d /boot/*-$release /lib/modules/$release /usr/src/linux-headers-$release 2> /dev/null
}

# install REVISION: the packages of that revision, and no others
install() {
	step "the packages of revision $1 are installed" dpkg -i \
		/mnt/$1/linux-image-*.deb /mnt/$1/linux-headers-*.deb /mnt/$1/contiguitas-tools_*.deb
	for package in linux-image-$release linux-headers-$release contiguitas-tools; do
		expect "$package has revision $1" [ "$(installed $package)" = "${release%%-*}-$1" ]
	done
	expect "the kernel and its initramfs are in /boot" \
		[ -s /boot/vmlinuz-$release -a -s /boot/initrd.img-$release ]
	expect "the boot loader's menu has it" [ "$(menu "vmlinuz-$release.*contiguitas=on")" -gt 0 ]
}

# ours REVISION: that kernel runs, confines, and the tools tell so
ours() {
	expect "the kernel of the package runs" [ "$(uname -r)" = $release ]
	expect "it is of revision $1" sh -c "uname -v | grep -q '^#$1 '"
	expect "the boot loader gave contiguitas=on" grep -qw contiguitas=on /proc/cmdline
	expect "contiguitas status" contiguitas
	contiguitas --json > /tmp/status
	echo "@@ {\"what\": \"status\", \"value\": $(cat /tmp/status)}"
	expect "it is on" grep -q '"enabled": true' /tmp/status
}

# crash: the kernel panics; the one that kdump has loaded saves its memory and reboots
crash() {
	systemctl is-active --quiet kdump-tools || systemctl status kdump-tools | sed 's/^/@@ note /'
	expect "a kernel for a crash is loaded" [ "$(cat /sys/kernel/kexec_crash_loaded)" = 1 ]
	echo $((stage + 1)) > /var/lib/stage
	sync
	echo c > /proc/sysrq-trigger
}

# saved: a dump of that kernel is there, its memory can be read, and the log in it tells of the
# border and of the crash. kdump writes it as a stream, which -R puts in order.
saved() {
	ls -l /var/crash/*/* | sed 's/^/@@ note /'
	makedumpfile -R /var/crash/memory < "$(ls /var/crash/*/dump.*)" > /dev/null &&
		makedumpfile -f --dump-dmesg /var/crash/memory /tmp/crash-log > /dev/null &&
		grep -q "contiguitas: node 0: border" /tmp/crash-log &&
		grep -q "sysrq: Trigger a crash" /tmp/crash-log
}

# In the kernel that saves the memory of another nothing is tried.
[ ! -e /proc/vmcore ] || sleep 600
echo "@@ note stage $stage: $(uname -rv)"
case $stage in
1)
	expect "Debian's kernel runs" [ "$(uname -r)" != $release ]
	expect "contiguitas has no kernel yet" [ ! -d $ctg ]
	step "the boot loader is installed" grub-install --target=x86_64-efi
	step "kdump is installed" dpkg -i /packages/*.deb
	sed -i 's/^#*USE_KDUMP=.*/USE_KDUMP=1/' /etc/default/kdump-tools
	install 1
	next
	;;
2)
	ours 1
	# a module that was built on another machine with what the package of headers has
	cp /mnt/ample_hostile.ko /lib/modules/
	expect "a module built with the headers loads" insmod /lib/modules/ample_hostile.ko
	. /plans/userland.sh
	step "contiguitas selftest" contiguitas selftest
	(sleep 20; contiguitas selftest > /dev/null; sleep 5; pkill -INT bpftrace) &
	contiguitas watch > /tmp/watched 2>&1
	tail -25 /tmp/watched | sed 's/^/@@ note watch: /'
	expect "watch shows the steps" grep -q '^[0-9]* *0 resize' /tmp/watched
	step "perf counts the steps" perf stat -a -e contiguitas:contiguitas_resize -o /tmp/perf \
		contiguitas selftest
	expect "there were some" awk '/contiguitas_resize/ { n = $1 } END { exit !n }' /tmp/perf
	crash
	;;
3)
	ours 1
	expect "the memory of the crash was saved" saved
	install 2
	next
	;;
4)
	ours 2
	expect "contiguitas off" contiguitas off
	expect "status says so" sh -c 'contiguitas | grep -q "is off"'
	expect "contiguitas on" contiguitas on
	step "the packages are removed" dpkg --purge \
		linux-image-$release linux-headers-$release contiguitas-tools
	left | sed 's/^/@@ note left: /'
	expect "no file of them is left" [ -z "$(left)" ]
	expect "the boot loader's menu has them no more" \
		[ "$(menu "vmlinuz-$release")$(menu contiguitas=on)" = 00 ]
	next
	;;
5)
	expect "Debian's kernel runs again" [ "$(uname -r)" != $release ]
	expect "nothing confines" [ ! -d $ctg ]
	expect "the command line is as it was" sh -c '! grep -q contiguitas= /proc/cmdline'
	expect "the system is running" [ "$(systemctl is-system-running --wait)" = running ]
	;;
esac

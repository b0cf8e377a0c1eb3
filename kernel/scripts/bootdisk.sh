# SPDX-License-Identifier: GPL-2.0-only
# For userland.sh: a disk that EFI firmware boots, with Debian's boot loader as an installer leaves
# it behind, so that packages of kernels do to it what they do on a machine.

# boot_disk ROOT OUT: from the files of ROOT
boot_disk() {
	local root=$1 out=$2 tmp mib=5120
	tmp=$(mktemp -d)
	mkdir -p "$root/boot/efi" "$root/boot/grub" "$root/etc/default/grub.d"
	printf 'LABEL=root / ext4 defaults 0 1\nLABEL=ESP /boot/efi vfat defaults 0 1\n' \
		> "$root/etc/fstab"
	cat > "$root/etc/default/grub.d/guest.cfg" <<-'CFG'
		GRUB_TIMEOUT=0
		GRUB_TERMINAL=serial
		GRUB_DISABLE_OS_PROBER=true
		GRUB_CMDLINE_LINUX="console=ttyS0 panic=-1 no_timer_check clocksource=hpet ample.plan=deb"
		GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX page_owner=on cgroup_disable=memory"
	CFG
	# The first boot; from then on update-grub writes it.
	cat > "$root/boot/grub/grub.cfg" <<-'CFG'
		linux /vmlinuz root=LABEL=root ro console=ttyS0 clocksource=hpet ample.plan=deb
		initrd /initrd.img
		boot
	CFG
	cat > "$tmp/early.cfg" <<-'CFG'
		search --no-floppy --label root --set root
		set prefix=($root)/boot/grub
		configfile $prefix/grub.cfg
	CFG
	grub-mkimage -O x86_64-efi -p /boot/grub -c "$tmp/early.cfg" -o "$tmp/boot.efi" \
		part_gpt fat ext2 normal search search_label configfile linux boot
	/sbin/mkfs.vfat -n ESP -C "$tmp/esp" $((64 * 1024)) > /dev/null
	mmd -i "$tmp/esp" ::EFI ::EFI/BOOT
	mcopy -i "$tmp/esp" "$tmp/boot.efi" ::EFI/BOOT/BOOTX64.EFI
	rm -f "$out"
	truncate -s "${mib}M" "$out"
	printf 'label: gpt\nstart=1MiB, size=64MiB, type=U\nstart=65MiB, type=L\n' |
		/sbin/sfdisk -q "$out"
	dd if="$tmp/esp" of="$out" bs=1M seek=1 conv=notrunc,sparse status=none
	truncate -s $((mib - 66))M "$tmp/root"
	/sbin/mkfs.ext4 -q -F -L root -d "$root" "$tmp/root"
	dd if="$tmp/root" of="$out" bs=1M seek=65 conv=notrunc,sparse status=none
	rm -r "$tmp"
}

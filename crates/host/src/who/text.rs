// SPDX-License-Identifier: MIT OR Apache-2.0
//! What text files of `/proc` say about modules, the kernel's image and block devices.

use super::kernel::FRAME_BYTES;
use super::vmalloc::KernelModule;
use crate::printable;

/// Modules from `/proc/modules`: name, size, users, …, address; none where addresses are hidden.
pub fn modules(text: &str) -> Vec<KernelModule> {
    let module = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let start = words.get(5)?.strip_prefix("0x")?;
        let start = u64::from_str_radix(start, 16)
            .ok()
            .filter(|&start| start != 0)?;
        let bytes: u64 = words.get(1)?.parse().ok()?;
        Some(KernelModule {
            name: printable(words[0]),
            start,
            end: start.checked_add(bytes)?,
        })
    };
    text.lines().filter_map(module).collect()
}

/// First frame, end and name of the parts of the kernel in `/proc/iomem`.
pub fn image_ranges(text: &str) -> Vec<(u64, u64, String)> {
    let range = |line: &str| {
        let (span, name) = line.split_once(" : ")?;
        let kernel = name.starts_with("Kernel ") || name.starts_with("Crash kernel");
        let (start, last) = span.trim().split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let (start, last) = (hex(start)?, hex(last)?);
        (kernel && last > start).then(|| (start / FRAME_BYTES, last / FRAME_BYTES + 1, name.into()))
    };
    text.lines().filter_map(range).collect()
}

/// What is mounted from a block device, or its number.
pub fn device_name(device: u32, mounts: &str) -> Option<String> {
    /// `MINORBITS`, `include/linux/kdev_t.h`.
    const MINOR_BITS: u32 = 20;
    if device == 0 {
        return None;
    }
    let number = format!(
        "{}:{}",
        device >> MINOR_BITS,
        device & ((1 << MINOR_BITS) - 1)
    );
    let mounted = mounts.lines().find_map(|line| {
        let (head, tail) = line.split_once(" - ")?;
        let mut words = head.split(' ');
        (words.nth(2)? == number).then_some(())?;
        let mut tail = tail.split(' ');
        let (kind, source) = (tail.next()?, tail.next()?);
        Some(printable(&format!("{kind} on {source}")))
    });
    Some(mounted.unwrap_or(format!("block device {number}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_image_and_devices_are_read() {
        let text = "virtio_net 98304 0 - Live 0xffffffffc0000000\nhidden 4096 0 - Live 0x0\nbad\n";
        let expected = KernelModule {
            name: "virtio_net".into(),
            start: 0xffff_ffff_c000_0000,
            end: 0xffff_ffff_c001_8000,
        };
        assert_eq!(modules(text), [expected]);
        let text = "00100000-bfffffff : System RAM\n  01000000-0220bb07 : Kernel code\nnonsense\n";
        assert_eq!(image_ranges(text), [(0x1000, 0x220c, "Kernel code".into())]);
        let mounts = "21 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n";
        assert_eq!(
            device_name(254 << 20 | 1, mounts).unwrap(),
            "ext4 on /dev/vda1"
        );
        assert_eq!(device_name(8 << 20, mounts).unwrap(), "block device 8:0");
        assert_eq!(device_name(0, mounts), None);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data in the queues of sockets: `sk_buff`s, their heads and fragments.

use super::OwnerKind;
use super::claims::Claims;
use super::files::{claim_pages, owner_of};
use super::kernel::{FRAME_BYTES, KernelMemory, frame_of_address, is_kernel_address};
use super::owners::OwnerId;
use super::tasks::RunningProcess;
use crate::HostError;
use ample_pfn::{Pfn, PfnRange};
use std::collections::HashSet;

/// Buffers followed at most.
const MAX_BUFFERS: usize = 1 << 24;
/// `MAX_SKB_FRAGS` is 17 by default and at most 45.
const MAX_FRAGMENTS: u64 = 45;
const FRAGMENT_BYTES: u64 = 16;
const QUEUES: [&str; 3] = [
    "sock.sk_receive_queue",
    "sock.sk_write_queue",
    "sock.sk_error_queue",
];
const RETRANSMITS: &str = "sock.tcp_rtx_queue";

/// An `sk_buff` in a queue.
#[derive(Clone, Copy)]
struct Buffer {
    address: u64,
    owner: OwnerId,
    /// In a red-black tree, not in a list.
    in_tree: bool,
}

/// Claims the pages behind the queues of sockets.
///
/// # Errors
/// When the kernel lacks a field that this cannot do without.
pub fn claim_sockets(
    kernel: &mut dyn KernelMemory,
    claims: &mut Claims,
    tasks: &[RunningProcess],
    sockets: &[(u64, usize)],
) -> Result<(), HostError> {
    let objects: Vec<u64> = sockets.iter().map(|(socket, _)| *socket).collect();
    let owners: Vec<OwnerId> = sockets
        .iter()
        .map(|(_, task)| owner_of(claims, OwnerKind::Socket, &tasks[*task]))
        .collect();
    let mut buffers = Vec::new();
    let mut ends: HashSet<u64> = HashSet::from([0]);
    for path in QUEUES
        .into_iter()
        .chain(["sock.sk_backlog.head", RETRANSMITS])
    {
        let at = kernel.field(path)?;
        let first = kernel.follow(&objects, at)?;
        buffers.extend(
            first
                .into_iter()
                .zip(&owners)
                .map(|(address, &owner)| Buffer {
                    address,
                    owner,
                    in_tree: path == RETRANSMITS,
                }),
        );
        // A list that comes back to its queue has ended.
        ends.extend(objects.iter().map(|socket| socket + at));
    }
    claim_buffers(kernel, claims, buffers, ends)?;
    let at = kernel.field("sock.sk_frag.page")?;
    let spare = kernel.follow(&objects, at)?;
    for (page, owner) in spare.into_iter().zip(owners) {
        claim_pages(kernel, claims, (page, 1), owner);
    }
    for task in tasks.iter().filter(|task| task.frag_page != 0) {
        let owner = owner_of(claims, OwnerKind::Socket, task);
        claim_pages(kernel, claims, (task.frag_page, 1), owner);
    }
    Ok(())
}

/// Follows buffers to their neighbours, all queues at once, and claims what they hold.
fn claim_buffers(
    kernel: &mut dyn KernelMemory,
    claims: &mut Claims,
    mut wave: Vec<Buffer>,
    mut seen: HashSet<u64>,
) -> Result<(), HostError> {
    while seen.len() < MAX_BUFFERS {
        wave.retain(|own| {
            is_kernel_address(own.address) && own.address % 8 == 0 && seen.insert(own.address)
        });
        if wave.is_empty() {
            break;
        }
        let addresses: Vec<u64> = wave.iter().map(|own| own.address).collect();
        let links = kernel.gather(&addresses, 24)?;
        let parts = claim_data(kernel, claims, &wave)?;
        let mut next = Vec::new();
        for ((links, own), part) in links.chunks(3).zip(&wave).zip(parts) {
            // A list links by its first word, a tree by `rb_right` and `rb_left` behind it.
            let neighbours = if own.in_tree {
                &links[1..]
            } else {
                &links[..1]
            };
            next.extend(neighbours.iter().map(|&address| Buffer { address, ..*own }));
            next.push(Buffer {
                address: part,
                in_tree: false,
                ..*own
            });
        }
        wave = next;
    }
    Ok(())
}

/// Claims the head and the fragments of each buffer; returns the first of its `frag_list`.
fn claim_data(
    kernel: &mut dyn KernelMemory,
    claims: &mut Claims,
    buffers: &[Buffer],
) -> Result<Vec<u64>, HostError> {
    let addresses: Vec<u64> = buffers.iter().map(|own| own.address).collect();
    let at = kernel.field("sk_buff.head")?;
    let heads = kernel.follow(&addresses, at)?;
    let at = kernel.field("sk_buff.end")?;
    let ends = kernel.follow_u32(&addresses, at)?;
    let shared = |(head, end): (&u64, &u32)| match is_kernel_address(*head) {
        true => head + u64::from(*end),
        false => 0,
    };
    let shared: Vec<u64> = heads.iter().zip(&ends).map(shared).collect();
    let at = kernel.field("skb_shared_info.nr_frags")?;
    let counts = kernel.follow(&shared, at)?;
    let at = kernel.field("skb_shared_info.frag_list")?;
    let lists = kernel.follow(&shared, at)?;
    let fragments_at = kernel.field("skb_shared_info.frags")?;
    let (mut fragments, mut holders) = (Vec::new(), Vec::new());
    for (at, &Buffer { owner, .. }) in buffers.iter().enumerate() {
        if let Some(frame) = frame_of_address(kernel, heads[at]) {
            let last = (heads[at] % FRAME_BYTES + u64::from(ends[at])) / FRAME_BYTES;
            claims.add(PfnRange::new(Pfn(frame), Pfn(frame + last + 1)), owner);
        }
        let count = (counts[at] & 0xff).min(MAX_FRAGMENTS);
        let own = (0..count).map(|index| shared[at] + fragments_at + index * FRAGMENT_BYTES);
        fragments.extend(own);
        holders.extend(std::iter::repeat_n(owner, count as usize));
    }
    let found = kernel.gather(&fragments, FRAGMENT_BYTES as usize)?;
    for (fragment, owner) in found.chunks(2).zip(holders) {
        let (length, offset) = (fragment[1] & 0xffff_ffff, fragment[1] >> 32);
        if length > 0 && length <= 1 << 24 && offset <= 1 << 24 {
            let (first, last) = (offset / FRAME_BYTES, (offset + length - 1) / FRAME_BYTES);
            let page = fragment[0] + 64 * first;
            claim_pages(kernel, claims, (page, last - first + 1), owner);
        }
    }
    Ok(lists)
}

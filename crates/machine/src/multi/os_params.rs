// SPDX-License-Identifier: MIT OR Apache-2.0
//! Costs of the operating system's work, and how it moves pages.

use super::iommu::MAX_ENTRIES;
use crate::check::MOST_CYCLES;
use ample_memory::BadParams;
use serde::{Deserialize, Serialize};

/// Kernel entries a second that a core can have.
const KERNEL_ENTRIES_PER_S: std::ops::RangeInclusive<f64> = 1.0..=1e7;

/// Costs of the operating system's work, in core cycles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OsParams {
    /// System calls, interrupts and context switches a second, each core.
    pub kernel_entries_per_s: f64,
    /// INVLPG, with the pipeline flush (Contiguitas §4: 250).
    pub invlpg_cycles: u64,
    /// Writing a page table entry.
    pub pte_cycles: u64,
    /// ENQCMD and looking at its completion record.
    pub submit_cycles: u64,
    /// The driver's instructions for an invalidation of IOTLB and NIC TLB, with the write of the
    /// tail register; its stores to the queue are accesses of their own.
    pub queue_invalidation_cycles: u64,
    /// Until the IOMMU has the new tail.
    pub tail_flight_cycles: u64,
    /// Descriptors in the invalidation queue (Linux 6.12: 256): a power of two from 4 on.
    pub invalidation_queue_entries: u32,
    /// Invalidations that a device may have before it (PCIe ATS: 32).
    pub device_invalidations: u32,
    /// The IOMMU drops an entry of the IOTLB.
    pub iotlb_cycles: u64,
    /// The request to the NIC, which drops an entry, and its answer; longer when requests with
    /// the old translation are still under way.
    pub nic_tlb_cycles: u64,
    /// Sending one inter-processor interrupt.
    pub ipi_send_cycles: u64,
    /// From sending an interrupt to the handler's first instruction.
    pub ipi_flight_cycles: u64,
    /// The handler, without INVLPG.
    pub ipi_handler_cycles: u64,
    /// Taking in one acknowledgement.
    pub ipi_ack_cycles: u64,
    /// Posting a lazy shootdown where other cores find it.
    pub lazy_post_cycles: u64,
    /// Finding a posted shootdown at a kernel entry, without INVLPG.
    pub lazy_sweep_cycles: u64,
    /// Broadcasting one invalidation to all TLBs and waiting until they have dropped it (as
    /// INVLPGB and TLBSYNC in kind): the instructions, without the INVLPG of the core itself.
    pub broadcast_issue_cycles: u64,
    /// From the broadcast until the last TLB has answered; no other core runs code for it.
    pub broadcast_sync_cycles: u64,
    /// Pages that one shootdown of the batched mover serves at most.
    pub batch_pages: u32,
    /// Copies that the transactional mover makes before it unmaps the page like plain software.
    pub transaction_tries: u32,
    /// After `TableFull`: cycles until the descriptor is submitted again, doubled each time up to
    /// 16 times as many; 0 submits at every kernel entry.
    pub table_full_backoff_cycles: u64,
    /// A core does at most one thing for a migration in hardware at each kernel entry: it takes in
    /// a completion, drops its translation, or submits, but not one after the other.
    pub one_step_an_entry: bool,
    /// Share of the migrations that the OS gives up while translations change, as when the page is
    /// freed meanwhile (cacheable design: the other has copied by then).
    pub abort_ratio: f64,
}

impl Default for OsParams {
    /// Calibrated on software alone: send + acknowledge 700 cycles a remote core, so that 16
    /// cores take about 6 µs at 2 GHz, the shootdown time LATR (ASPLOS 2018) reports.
    fn default() -> Self {
        Self {
            kernel_entries_per_s: 40_000.0,
            invlpg_cycles: 250,
            pte_cycles: 50,
            submit_cycles: 150,
            queue_invalidation_cycles: 100,
            tail_flight_cycles: 200,
            invalidation_queue_entries: 256,
            device_invalidations: 32,
            iotlb_cycles: 1000,
            nic_tlb_cycles: 2000,
            ipi_send_cycles: 400,
            ipi_flight_cycles: 600,
            ipi_handler_cycles: 700,
            ipi_ack_cycles: 300,
            lazy_post_cycles: 150,
            lazy_sweep_cycles: 100,
            broadcast_issue_cycles: 200,
            broadcast_sync_cycles: 800,
            batch_pages: 16,
            transaction_tries: 3,
            table_full_backoff_cycles: 8000,
            one_step_an_entry: false,
            abort_ratio: 0.0,
        }
    }
}

impl OsParams {
    /// Checks what could not be built.
    ///
    /// # Errors
    /// Names the first parameter that is wrong and says what is accepted.
    pub fn check(&self) -> Result<(), BadParams> {
        let bad = |field, reason| Err(BadParams { field, reason });
        let entries = self.invalidation_queue_entries;
        if !entries.is_power_of_two() || !(4..=MAX_ENTRIES).contains(&entries) {
            return bad(
                "invalidation_queue_entries",
                format!("{entries}; a power of two from 4 to {MAX_ENTRIES} is needed"),
            );
        }
        if self.device_invalidations == 0 {
            let reason = "0; a device must take at least 1".into();
            return bad("device_invalidations", reason);
        }
        // A kernel entry takes a tenth of a microsecond at least; a core without one in a second
        // would hold every migration up.
        let entries = self.kernel_entries_per_s;
        if !KERNEL_ENTRIES_PER_S.contains(&entries) {
            let (least, most) = KERNEL_ENTRIES_PER_S.into_inner();
            let reason = format!("{entries}; valid: {least} to {most}");
            return bad("kernel_entries_per_s", reason);
        }
        for (field, cycles) in self.cycles() {
            if cycles > MOST_CYCLES {
                return bad(field, format!("{cycles}; valid: 0 to {MOST_CYCLES}"));
            }
        }
        if self.batch_pages == 0 {
            return bad("batch_pages", "0; a batch has at least 1".into());
        }
        if !(0.0..=1.0).contains(&self.abort_ratio) {
            return bad("abort_ratio", "must be a share, 0 to 1".into());
        }
        Ok(())
    }

    /// Every cost in cycles, by its name.
    fn cycles(&self) -> [(&'static str, u64); 16] {
        [
            ("invlpg_cycles", self.invlpg_cycles),
            ("pte_cycles", self.pte_cycles),
            ("submit_cycles", self.submit_cycles),
            ("queue_invalidation_cycles", self.queue_invalidation_cycles),
            ("tail_flight_cycles", self.tail_flight_cycles),
            ("iotlb_cycles", self.iotlb_cycles),
            ("nic_tlb_cycles", self.nic_tlb_cycles),
            ("ipi_send_cycles", self.ipi_send_cycles),
            ("ipi_flight_cycles", self.ipi_flight_cycles),
            ("ipi_handler_cycles", self.ipi_handler_cycles),
            ("ipi_ack_cycles", self.ipi_ack_cycles),
            ("lazy_post_cycles", self.lazy_post_cycles),
            ("lazy_sweep_cycles", self.lazy_sweep_cycles),
            ("broadcast_issue_cycles", self.broadcast_issue_cycles),
            ("broadcast_sync_cycles", self.broadcast_sync_cycles),
            ("table_full_backoff_cycles", self.table_full_backoff_cycles),
        ]
    }
}

/// How pages are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mover {
    /// The hardware of the memory system.
    Hardware,
    /// Clear the page table entry, interrupt all cores, copy, restore.
    Software,
    /// As LATR (ASPLOS 2018) does in kind: clear the entry, post the shootdown, and let every
    /// core drop its translation when it next enters the kernel; the last one copies and
    /// restores. No interrupts, but a core that has dropped its translation waits for the page.
    LazySoftware,
    /// As `Software`, but all TLBs are told by one broadcast instruction (AMD's INVLPGB and
    /// TLBSYNC, Arm's TLBI in kind): no interrupts.
    Broadcast,
    /// As `Software`, but one shootdown serves all pages that wait to be moved (Linux since 6.3,
    /// `migrate_pages_batch` in mm/migrate.c): all are unmapped until their own copy is over.
    Batched,
    /// As NOMAD (OSDI 2024) does in kind: copy while the page stays mapped, then unmap, and look
    /// whether a store came between; if so, the copy is thrown away and made again later. Devices
    /// write the page too: the IOMMU is taken to set dirty bits.
    Transactional,
}

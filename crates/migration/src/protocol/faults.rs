// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors that are planted to show that the checker finds them.

use serde::{Deserialize, Serialize};

/// A protocol error planted on purpose, to show that the checker finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlantedFault {
    /// A miss does not invalidate copies held under the opposite mapping.
    SkipOppositeCheck,
    /// The pointer comparison is `<=` where it must be `<`.
    PointerOffByOne,
    /// The OS clears the entry without waiting for the TLBs.
    EarlyClear,
    /// The OS forgets the TLB of the NIC.
    ForgetNicTlb,
    /// The NIC's TLB is invalidated before the IOTLB and refills from it.
    NicTlbBeforeIotlb,
    /// The NIC acknowledges an invalidation while a request with the old mapping is in flight.
    NicDoesNotDrain,
    /// Dead lines of the destination page stay in private caches when a migration starts.
    SkipPurge,
    /// A line owned under the destination mapping is skipped even when its owner has a clean
    /// copy, so that nobody ever writes the destination.
    SkipCleanOwner,
    /// A skipped line's owner is not handed over to the destination's home.
    LoseHandover,
    /// In the non-cacheable design a copied line is given to a private cache.
    NoNack,
    /// The engine copies a line without taking it back from the private caches.
    CopyWithoutInvalidate,
    /// The page table changes before redirection is on in every slice.
    PteBeforeInstall,
    /// Copying starts while TLBs still hold the source mapping.
    CopyBeforeTlbsClean,
    /// The pointer advances before the destination slice has acknowledged the line.
    AdvanceBeforeAck,
    /// An aborted migration is cleared without taking back lines cached under the destination.
    AbortWithoutFlush,
    /// When a migration is aborted, each slice drops its entry as soon as its own lines are
    /// flushed. (Not planted: the checker found it in the first draft of this protocol.)
    ClearBeforeAllFlushed,
    /// A slice finishes its share and does not pass the turn on.
    LoseTurn,
    /// Cores are not told that a migration is over (non-cacheable design).
    ForgetUnmark,
    /// A migration is reported as copied while cores have yet to mark its page, so that a mark may
    /// come after its end. (Not planted: the first protocol had no answers to marks.)
    UnmarkBeforeMarked,
    /// An entry is cleared while requests that its slice has forwarded are under way. (Not planted:
    /// the checker found it once a page could move a second time.)
    ClearBeforeForwardsServed,
    /// A device takes the answer to a translation request that came before an invalidation.
    TranslationAfterInvalidation,
    /// A reset of the front end empties the metadata tables too.
    ResetDropsTable,
    /// The front end does not ask whether a frame is the guest's that wants to move it.
    GuestUnchecked,
    /// The IOTLB acknowledges an invalidation while an access that it translated for a device
    /// without a TLB is under way.
    IotlbDoesNotDrain,
    /// A flush instruction leaves copies that are cached under the other name.
    FlushOneName,
    /// A directory that needs room forgets a line without taking it back.
    RecallKeepsCopies,
    /// A slice is taken offline while engines copy.
    OfflineWhileMoving,
}

/// All planted faults, for tests and reports.
pub const FAULTS: [PlantedFault; 27] = [
    PlantedFault::SkipOppositeCheck,
    PlantedFault::PointerOffByOne,
    PlantedFault::EarlyClear,
    PlantedFault::ForgetNicTlb,
    PlantedFault::NicTlbBeforeIotlb,
    PlantedFault::NicDoesNotDrain,
    PlantedFault::SkipPurge,
    PlantedFault::SkipCleanOwner,
    PlantedFault::LoseHandover,
    PlantedFault::NoNack,
    PlantedFault::CopyWithoutInvalidate,
    PlantedFault::PteBeforeInstall,
    PlantedFault::CopyBeforeTlbsClean,
    PlantedFault::AdvanceBeforeAck,
    PlantedFault::AbortWithoutFlush,
    PlantedFault::ClearBeforeAllFlushed,
    PlantedFault::LoseTurn,
    PlantedFault::ForgetUnmark,
    PlantedFault::UnmarkBeforeMarked,
    PlantedFault::ClearBeforeForwardsServed,
    PlantedFault::TranslationAfterInvalidation,
    PlantedFault::ResetDropsTable,
    PlantedFault::GuestUnchecked,
    PlantedFault::IotlbDoesNotDrain,
    PlantedFault::FlushOneName,
    PlantedFault::RecallKeepsCopies,
    PlantedFault::OfflineWhileMoving,
];

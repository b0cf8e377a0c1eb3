// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starting a replay from the pages that the traced machine held when the recording began.

use super::error::ReplayError;
use crate::server::{ServerError, is_placed};
use ample_pfn::{Coverage, Layout, Metrics, MetricsBuilder, PageClass, PageSource, Pfn, SizeList};
use std::convert::Infallible;

/// A machine as a snapshot of it shows it: the use of every frame.
#[derive(Clone, Debug)]
pub struct Start {
    pub(super) layout: Layout,
    pub(super) classes: Vec<PageClass>,
}

impl Start {
    /// From the use of each frame of the layout's span.
    ///
    /// # Errors
    /// [`ReplayError::Server`] when their number is not that of the frames.
    pub fn new(layout: Layout, classes: Vec<PageClass>) -> Result<Start, ReplayError> {
        let expected = layout.span().pages();
        let given = classes.len() as u64;
        if given != expected {
            return Err(ServerError::WrongLength { given, expected }.into());
        }
        Ok(Start { layout, classes })
    }

    /// Frames of the span, holes included.
    pub fn span_pages(&self) -> u64 {
        self.layout.span().pages()
    }

    /// Nodes and zones.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The use of each frame of the layout's span.
    pub fn classes(&self) -> &[PageClass] {
        &self.classes
    }

    /// The pages that a server is given, with their frame numbers; the position in this order
    /// is the number of the block that the replay knows the page by.
    pub(super) fn used(&self) -> impl Iterator<Item = (u64, PageClass)> + '_ {
        let first = self.layout.span().start.0;
        let all = self.classes.iter().enumerate();
        all.filter(|(_, class)| is_placed(**class))
            .map(move |(index, &class)| (first + index as u64, class))
    }
}

/// The traced kernel's memory while the recording runs: the snapshot, kept up to date with the
/// frames that the kernel itself chose.
#[derive(Debug)]
pub struct Image(Start);

impl Image {
    pub(super) fn new(start: &Start) -> Image {
        Image(start.clone())
    }

    /// Sets the use of a block; frames outside the machine are left out.
    #[inline]
    pub(super) fn set(&mut self, pfn: u64, order: u8, class: PageClass) {
        let first = self.0.layout.span().start.0;
        let Some(from) = pfn.checked_sub(first) else {
            return;
        };
        let end = (from + (1 << order)).min(self.0.classes.len() as u64);
        if from < end {
            self.0.classes[from as usize..end as usize].fill(class);
        }
    }

    /// The metrics of the present state.
    pub(super) fn metrics(&mut self) -> Metrics {
        match MetricsBuilder::collect(self, &SizeList::standard()) {
            Ok(builder) => builder.finish(&Coverage::exact()),
            Err(never) => match never {},
        }
    }
}

impl PageSource for Image {
    type Error = Infallible;

    fn layout(&self) -> &Layout {
        &self.0.layout
    }

    fn for_each_chunk(
        &mut self,
        sink: &mut dyn FnMut(Pfn, &[PageClass]),
    ) -> Result<(), Infallible> {
        sink(self.0.layout.span().start, &self.0.classes);
        Ok(())
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options as tables, for pages and for terminals.

use super::estimate::{COUNT, PERCENT, SECONDS, Wording};
use super::options::OPTIONS;
use super::outlook::Outlook;
use ample_kit::statistics::MedianRange;
use ample_report::Table;

fn cell(range: Option<MedianRange>, wording: Wording) -> String {
    range.map_or("–".into(), |range| wording.of(&range))
}

/// What each option gains.
pub fn gains_table(outlooks: &[Outlook], workload: &str) -> Table {
    let mut table = Table::headed(&format!(
        "option | >speed, {workload} | >speed, all kinds | >1 GB pages | >2 MB pages"
    ));
    for own in outlooks {
        let kinds = own.gain_over_kinds();
        table.row(vec![
            own.choice.info().name.into(),
            cell(own.gain(workload), PERCENT),
            kinds.map_or("–".into(), |range| PERCENT.span(&range)),
            cell(own.hugetlb_1g_got, COUNT),
            cell(own.hugetlb_2m_got, COUNT),
        ]);
    }
    table
}

/// What each option does to memory, and to those who ask for it.
pub fn memory_table(outlooks: &[Outlook]) -> Table {
    let mut table = Table::headed(
        "option | >2 MB blocks spoiled | >clean 1 GB blocks | >refused | >waiting for memory",
    );
    let simulated = |own: &&Outlook| own.unmovable_2m_ratio.is_some();
    for own in outlooks.iter().filter(simulated) {
        table.row(vec![
            own.choice.info().name.into(),
            cell(own.unmovable_2m_ratio, PERCENT),
            cell(own.clean_1g_blocks, COUNT),
            cell(own.refused, COUNT),
            cell(own.waited_s, SECONDS),
        ]);
    }
    table
}

/// How each option is done, what it takes and what can go wrong.
pub(super) fn ways_table() -> Table {
    let mut table = Table::headed("option | how | cost | risk");
    for option in &OPTIONS {
        table.row(
            [option.name, option.how, option.cost, option.risk]
                .map(String::from)
                .to_vec(),
        );
    }
    table
}

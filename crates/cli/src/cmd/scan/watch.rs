// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample scan --watch SECS`: the picture, again and again.

use super::map::Map;
use super::style::Style;
use ample_host::{Scan, ScanOptions, printable, scan_live};
use ample_pfn::{MetricsBuilder, PAGEBLOCK_ORDER, SizeList, format_bytes};
use anyhow::Context;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style as Look};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline};
use ratatui::{DefaultTerminal, Frame};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Values kept for the curves: more than the widest terminal has columns.
const HISTORY: usize = 512;
const PERMILLE: f64 = 1000.0;

/// Shows the machine until q, Esc or Ctrl-C.
///
/// # Errors
/// When standard output is no terminal, or a scan fails.
pub fn run(seconds: f64, options: &ScanOptions, sizes: &SizeList) -> anyhow::Result<()> {
    if !std::io::stdout().is_terminal() {
        anyhow::bail!("--watch draws on a terminal; for a file use --format in a loop");
    }
    // A failing first scan should not flicker.
    let first = scan_live(options)?;
    let style = Style::detect(true);
    let mut terminal = ratatui::init();
    let result = Watch::new(first, sizes, style).run(&mut terminal, seconds, options);
    ratatui::restore();
    result
}

struct Watch {
    scan: Scan,
    builder: MetricsBuilder,
    sizes: SizeList,
    style: Style,
    unmovable: Vec<u64>,
    free: Vec<u64>,
}

impl Watch {
    fn new(scan: Scan, sizes: &SizeList, style: Style) -> Watch {
        let builder = MetricsBuilder::new(&scan.layout, sizes);
        let mut watch = Watch {
            builder,
            sizes: sizes.clone(),
            style,
            unmovable: Vec::new(),
            free: Vec::new(),
            scan: scan.clone(),
        };
        watch.take(scan);
        watch
    }

    fn take(&mut self, mut scan: Scan) {
        let Ok(builder) = MetricsBuilder::collect(&mut scan, &self.sizes);
        self.builder = builder;
        self.scan = scan;
        let total = self.builder.finish(&self.scan.meta.coverage).total;
        let permille = |ratio: Option<f64>| (ratio.unwrap_or(0.0) * PERMILLE).round() as u64;
        let pageblock = total
            .sizes
            .iter()
            .find(|s| s.size_bytes == PAGEBLOCK_ORDER.bytes());
        let newest = [
            (
                &mut self.unmovable,
                pageblock.and_then(|size| size.unmovable_ratio),
            ),
            (
                &mut self.free,
                pageblock.and_then(|size| size.free_contiguity_ratio),
            ),
        ];
        for (history, ratio) in newest {
            history.push(permille(ratio));
            if history.len() > HISTORY {
                history.remove(0);
            }
        }
    }

    fn run(
        &mut self,
        terminal: &mut DefaultTerminal,
        seconds: f64,
        options: &ScanOptions,
    ) -> anyhow::Result<()> {
        let interval = Duration::from_secs_f64(seconds);
        loop {
            terminal
                .draw(|frame| self.draw(frame))
                .context("cannot draw")?;
            let due = Instant::now() + interval;
            while Instant::now() < due {
                let wait = due.saturating_duration_since(Instant::now());
                if !event::poll(wait).context("cannot read the keyboard")? {
                    break;
                }
                match event::read().context("cannot read the keyboard")? {
                    Event::Key(key) if key.kind == KeyEventKind::Press => {
                        let control = key.modifiers.contains(KeyModifiers::CONTROL);
                        match key.code {
                            KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                            KeyCode::Char('c') if control => return Ok(()),
                            KeyCode::Char(' ') => break,
                            _ => {}
                        }
                    }
                    Event::Resize(..) => {
                        terminal
                            .draw(|frame| self.draw(frame))
                            .context("cannot draw")?;
                    }
                    _ => {}
                }
            }
            self.take(scan_live(options)?);
        }
    }

    fn draw(&self, frame: &mut Frame) {
        let area = frame.area();
        let map = Map::new(&self.builder, usize::from(area.width));
        let map_rows = map.rows.len() as u16 + 1;
        let table = self.table(usize::from(area.width));
        let [head, map_area, table_area, unmovable, free, keys] = Layout::vertical([
            Constraint::Length(2),
            Constraint::Length(map_rows + 1),
            Constraint::Length(table.len() as u16 + 1),
            Constraint::Max(4),
            Constraint::Max(4),
            Constraint::Length(1),
        ])
        .areas(area);
        let meta = &self.scan.meta;
        let total = self.builder.finish(&meta.coverage).total;
        let title = format!(
            "{}  Linux {}  {} of {} free",
            printable(meta.hostname.as_deref().unwrap_or("unknown host")),
            printable(&meta.kernel),
            format_bytes(total.free_bytes),
            format_bytes(total.memory_bytes),
        );
        frame.render_widget(Line::from(title).style(self.bold()), head);
        frame.render_widget(Paragraph::new(self.map_lines(&map)), map_area);
        frame.render_widget(Paragraph::new(table), table_area);
        self.curve(
            frame,
            unmovable,
            "2 MB blocks unmovable, K at most",
            &self.unmovable,
            208,
        );
        self.curve(
            frame,
            free,
            "free memory in free 2 MB blocks",
            &self.free,
            71,
        );
        let took = format!(
            "q quit  space scan now   last scan {:.0} ms by {}",
            meta.duration_ns as f64 / 1e6,
            meta.reader
        );
        frame.render_widget(
            Line::from(took).style(Look::new().add_modifier(Modifier::DIM)),
            keys,
        );
    }

    fn bold(&self) -> Look {
        Look::new().add_modifier(Modifier::BOLD)
    }

    fn look(&self, colour: u8) -> Look {
        if self.style.colour {
            Look::new().fg(Color::Indexed(colour))
        } else {
            Look::new()
        }
    }

    fn map_lines(&self, map: &Map) -> Vec<Line<'static>> {
        let mut lines: Vec<Line> = map
            .rows
            .iter()
            .map(|(start, cells)| {
                let mut spans = vec![Span::raw(super::map::address(*start))];
                spans.extend(cells.chunk_by(|a, b| a == b).map(|run| {
                    let (glyph, colour) = run[0].glyph(&self.style);
                    Span::styled(
                        glyph.to_string().repeat(run.len()),
                        self.look(colour.index()),
                    )
                }));
                Line::from(spans)
            })
            .collect();
        let mut legend = vec![Span::raw(format!(
            "1 cell = {}",
            format_bytes(map.cell_bytes)
        ))];
        for look in map.looks() {
            let (glyph, colour) = look.glyph(&self.style);
            legend.push(Span::styled(
                format!("  {glyph}"),
                self.look(colour.index()),
            ));
            legend.push(Span::raw(format!(" {}", look.name())));
        }
        lines.push(Line::from(legend));
        lines
    }

    fn table(&self, columns: usize) -> Vec<Line<'static>> {
        let total = self.builder.finish(&self.scan.meta.coverage).total;
        super::text::sizes(&total, columns)
            .lines()
            .map(|line| Line::from(line.to_string()))
            .collect()
    }

    fn curve(
        &self,
        frame: &mut Frame,
        area: ratatui::layout::Rect,
        title: &str,
        history: &[u64],
        colour: u8,
    ) {
        let [label, plot] =
            Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(area);
        let now = history.last().copied().unwrap_or(0) as f64 / 10.0;
        let title = Line::from(format!("{title}: {now:.1} %")).style(self.bold());
        frame.render_widget(title, label);
        let shown = &history[history.len().saturating_sub(usize::from(plot.width))..];
        let curve = Sparkline::default()
            .data(shown)
            .max(PERMILLE as u64)
            .style(self.look(colour));
        frame.render_widget(curve, plot);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces for other tools: ChampSim's 64-byte instruction records and the text of Valgrind's
//! lackey. Both hold instructions, so that an access becomes its own after as many others as its
//! gap says.

use crate::access::error::{FirstError, TraceError};
use crate::{Access, AccessKind, Consumer};
use std::io::Write;

/// Where instructions lie until the first fetch says otherwise.
const FIRST_LINE: u64 = 0x40_0000;
/// Registers that carry loaded values: those above ChampSim's own (stack, flags, instruction).
const FIRST_REGISTER: u8 = 32;
/// Half of the 128 physical registers of ChampSim's default core: each that was written once keeps
/// a physical one, and a core that has none left for what is in flight stands still.
const REGISTERS: usize = 64;

/// Bytes gathered before they are written.
const PENDING_BYTES: usize = 64 << 10;

/// The kind of file, with what it has to remember.
enum Target {
    ChampSim {
        /// Number of the load whose value each register holds, counted from one.
        holds: Box<[u64; REGISTERS]>,
        loads: usize,
    },
    Lackey,
}

/// Writes instructions; a [`Consumer`], so that a program can run straight into a file.
///
/// What the formats have no room for is lost. ChampSim's keeps no sizes (readers take 8 bytes) and
/// dependences only on one of the last 64 loads, and the second access of an instruction becomes an
/// instruction there; lackey's keeps no dependences; neither keeps threads and regions. A trace
/// without fetches gets one line of code, which readers see as one fetch.
pub struct InstructionWriter<W: Write> {
    out: W,
    target: Target,
    line: u64,
    offset: u64,
    /// Fetched lines in which no instruction has run as yet.
    entered: Vec<u64>,
    /// Loads and stores so far.
    accesses: u64,
    instructions: u64,
    /// Compressors are slow with one record at a time.
    pending: Vec<u8>,
    first_error: FirstError,
}

impl<W: Write> InstructionWriter<W> {
    fn new(out: W, target: Target) -> Self {
        InstructionWriter {
            out,
            target,
            line: FIRST_LINE,
            offset: 0,
            entered: Vec::new(),
            accesses: 0,
            instructions: 0,
            pending: Vec::new(),
            first_error: FirstError::default(),
        }
    }

    /// A ChampSim trace.
    pub fn champsim(out: W) -> Self {
        let holds = Box::new([0; REGISTERS]);
        InstructionWriter::new(out, Target::ChampSim { holds, loads: 0 })
    }

    /// Lackey's text.
    pub fn lackey(out: W) -> Self {
        InstructionWriter::new(out, Target::Lackey)
    }

    /// Appends one access.
    ///
    /// # Errors
    /// If writing fails, or the format has no way to say it.
    pub fn push(&mut self, access: &Access) -> Result<(), TraceError> {
        if access.kind == AccessKind::Fetch {
            self.entered.push(access.va & !63);
            return Ok(());
        }
        let passed = self.entered.len().saturating_sub(1) as u64;
        self.run_entered()?;
        for _ in passed..u64::from(access.gap) {
            self.instruction(None)?;
        }
        self.accesses += 1;
        if access.joined && matches!(self.target, Target::Lackey) {
            self.pending.extend(lackey_line(access).into_bytes());
            return Ok(());
        }
        self.instruction(Some(access))
    }

    /// One instruction in each line that was fetched and left again, and on to the last.
    fn run_entered(&mut self) -> Result<(), TraceError> {
        let lines = std::mem::take(&mut self.entered);
        for (at, &line) in lines.iter().enumerate() {
            (self.line, self.offset) = (line, 0);
            if at + 1 < lines.len() {
                self.instruction(None)?;
            }
        }
        Ok(())
    }

    fn instruction(&mut self, access: Option<&Access>) -> Result<(), TraceError> {
        let ip = self.line + self.offset;
        self.offset = (self.offset + 4) % 64;
        let at = self.instructions;
        self.instructions += 1;
        match &mut self.target {
            Target::ChampSim { holds, loads } => {
                let record = champsim_record(ip, access, self.accesses, holds, loads)?;
                self.pending.extend(record);
            }
            Target::Lackey => self.pending.extend(lackey_lines(ip, access).into_bytes()),
        }
        if self.pending.len() < PENDING_BYTES {
            return Ok(());
        }
        self.write_out(at)
    }

    fn write_out(&mut self, at: u64) -> Result<(), TraceError> {
        let written = self.out.write_all(&self.pending);
        self.pending.clear();
        written.map_err(|source| TraceError::Io { at, source })
    }

    /// Ends the trace; returns the instructions written and the stream beneath.
    ///
    /// # Errors
    /// If writing fails, or failed while a program ran into this writer.
    pub fn finish(mut self) -> Result<(u64, W), TraceError> {
        self.first_error.check()?;
        let open = !self.entered.is_empty();
        self.run_entered()?;
        if open {
            self.instruction(None)?;
        }
        self.write_out(self.instructions)?;
        Ok((self.instructions, self.out))
    }
}

impl<W: Write> Consumer for InstructionWriter<W> {
    fn consume(&mut self, block: &[Access]) -> bool {
        let written = block.iter().try_for_each(|access| self.push(access));
        self.first_error.keep(written)
    }
}

/// One `input_instr`: a load puts its value into the next register, an access that depends on an
/// earlier load reads the register that still holds it.
fn champsim_record(
    ip: u64,
    access: Option<&Access>,
    number: u64,
    holds: &mut [u64; REGISTERS],
    loads: &mut usize,
) -> Result<[u8; 64], TraceError> {
    let mut record = [0; 64];
    record[..8].copy_from_slice(&ip.to_le_bytes());
    let Some(access) = access else {
        return Ok(record);
    };
    if access.va == 0 {
        return Err(TraceError::Syntax {
            place: format!("load or store {number}"),
            what: "address 0 stands for no access in a ChampSim trace".into(),
        });
    }
    if access.dep > 0
        && let Some(needed) = number.checked_sub(u64::from(access.dep))
        && let Some(register) = holds.iter().position(|&held| held == needed && held != 0)
    {
        record[12] = FIRST_REGISTER + register as u8;
    }
    let place = if access.kind == AccessKind::Store {
        16
    } else {
        32
    };
    record[place..place + 8].copy_from_slice(&access.va.to_le_bytes());
    if access.kind == AccessKind::Load {
        let register = *loads % REGISTERS;
        *loads += 1;
        holds[register] = number;
        record[10] = FIRST_REGISTER + register as u8;
    }
    Ok(record)
}

fn lackey_lines(ip: u64, access: Option<&Access>) -> String {
    let fetched = format!("I  {ip:08x},4\n");
    match access {
        None => fetched,
        Some(access) => fetched + &lackey_line(access),
    }
}

fn lackey_line(access: &Access) -> String {
    let letter = match access.kind {
        AccessKind::Store => 'S',
        _ => 'L',
    };
    format!(" {letter} {:08x},{}\n", access.va, access.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::import;
    use proptest::prelude::*;

    /// Programs as recorders see them: a line, then what it loads and stores.
    fn accesses() -> impl Strategy<Value = Vec<Access>> {
        let one = (0u64..1 << 47, 0u16..9, 0u16..64, 0u8..5);
        proptest::collection::vec(one, 1..300).prop_map(|parts| {
            let mut all = vec![Access::fetch(0x1000)];
            let (mut loads, mut number, mut line) = (Vec::new(), 0u64, 0x40);
            for (va, gap, dep, kind) in parts {
                if kind == 0 && all.last().is_none_or(|a| a.kind != AccessKind::Fetch) {
                    line += 1 + va % 7;
                    all.push(Access::fetch(line << 6));
                    continue;
                }
                number += 1;
                // A dependence is on a load that a register can still hold.
                let target = number.saturating_sub(u64::from(dep));
                let dep = if loads.contains(&target) { dep } else { 0 };
                let access = if kind == 1 {
                    Access::store(va | 8, gap)
                } else {
                    loads.push(number);
                    Access::load(va | 8, gap)
                };
                all.push(access.after(dep));
            }
            all.retain({
                // The last access of the lists compared must not be a fetch alone.
                let last = all.iter().rposition(|a| a.kind != AccessKind::Fetch);
                let mut at = 0;
                move |_| {
                    at += 1;
                    last.is_some_and(|last| at <= last + 1)
                }
            });
            all
        })
    }

    fn through(
        all: &[Access],
        mut writer: InstructionWriter<Vec<u8>>,
        read: impl Fn(&[u8], &mut dyn FnMut(Access) -> bool),
    ) -> Vec<Access> {
        assert!(writer.consume(all));
        let (instructions, file) = writer.finish().unwrap();
        assert_eq!(
            instructions,
            all.iter().map(Access::instructions).sum::<u64>()
        );
        let mut back = Vec::new();
        read(&file, &mut |access| {
            back.push(access);
            true
        });
        back
    }

    proptest! {
        #[test]
        fn champsim_traces_come_back(all in accesses()) {
            let writer = InstructionWriter::champsim(Vec::new());
            let back = through(&all, writer, |file, visit| {
                import::champsim(file, visit).unwrap();
            });
            prop_assert_eq!(back, all);
        }

        #[test]
        fn lackey_text_comes_back_without_dependences(all in accesses()) {
            let back = through(&all, InstructionWriter::lackey(Vec::new()), |file, visit| {
                import::lackey(file, visit).unwrap();
            });
            let plain: Vec<Access> = all.iter().map(|a| a.after(0)).collect();
            prop_assert_eq!(back, plain);
        }
    }

    #[test]
    fn a_champsim_trace_leaves_half_of_the_physical_registers_free() {
        let loads: Vec<Access> = (1..1000).map(|n| Access::load(n * 64, 1)).collect();
        let mut writer = InstructionWriter::champsim(Vec::new());
        assert!(writer.consume(&loads));
        let (_, file) = writer.finish().unwrap();
        let written: std::collections::HashSet<u8> =
            file.chunks_exact(64).map(|record| record[10]).collect();
        assert_eq!(
            written.iter().filter(|&&register| register != 0).count(),
            64
        );
    }

    #[test]
    fn lines_left_at_once_take_instructions_from_the_gap() {
        let all = [
            Access::fetch(0x1000),
            Access::fetch(0x2000),
            Access::load(0x9000, 3),
        ];
        let writer = InstructionWriter::champsim(Vec::new());
        let back = through(&all, writer, |file, visit| {
            import::champsim(file, visit).unwrap();
        });
        assert_eq!(back, all);
        let mut writer = InstructionWriter::champsim(Vec::new());
        let error = writer.push(&Access::load(0, 0)).unwrap_err().to_string();
        assert!(error.contains("address 0"), "{error}");
    }
}

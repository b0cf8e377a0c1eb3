// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data-centre services as Contiguitas, section 2.3, measures them: large code and large, skewed
//! data. Each request calls a chain of functions (instruction fetches over the whole of the code)
//! that touch objects of a heap; both are chosen by Zipf's law.

use super::Scale;
use crate::{Access, Backing, Program, Recorder, Region, RegionLayout};
use ample_kit::random::{SplitMix64, Zipf, mix64};

/// How large the parts of a service are and how it uses them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServiceShape {
    /// Name on the command line.
    pub name: &'static str,
    /// Bytes of executable code.
    pub code_bytes: u64,
    /// Zipf exponent over functions.
    pub code_skew: f64,
    /// Part of the heap that holds hot data (laid out first), bytes.
    pub hot_bytes: u64,
    /// Share of object accesses that go to it, evenly.
    pub hot_share: f64,
    /// The rest of the heap, bytes.
    pub cold_bytes: u64,
    /// Zipf exponent over the objects of the rest.
    pub cold_skew: f64,
    /// Accesses to the stack and other local data between two objects.
    pub local_accesses: u32,
    /// Instructions of one function call: fitted so that walks for data and instructions take a
    /// fifth of all cycles with 4 KB pages (experiments/walks.toml).
    pub call_instructions: u32,
    /// Objects a call touches.
    pub objects_per_call: u32,
}

/// Web-like: hundreds of megabytes of just-in-time compiled code, a heap near the machine's size.
pub const WEB: ServiceShape = ServiceShape {
    name: "web",
    code_bytes: 192 << 20,
    code_skew: 1.05,
    hot_bytes: 4 << 30,
    hot_share: 0.3,
    cold_bytes: 20 << 30,
    cold_skew: 1.0,
    call_instructions: 1107,
    objects_per_call: 1,
    local_accesses: 24,
};

/// Cache-like: smaller code, larger and flatter data.
pub const CACHE: ServiceShape = ServiceShape {
    name: "cache",
    code_bytes: 24 << 20,
    code_skew: 1.1,
    hot_bytes: 8 << 30,
    hot_share: 0.3,
    cold_bytes: 32 << 30,
    cold_skew: 0.95,
    call_instructions: 1566,
    objects_per_call: 1,
    local_accesses: 24,
};

impl ServiceShape {
    /// The shape at a scale: heap and code are smaller at the smallest.
    pub fn at(self, scale: Scale) -> ServiceShape {
        let (heap, code) = match scale {
            Scale::Tiny => (1024, 16),
            Scale::Quick | Scale::Full => (1, 1),
        };
        ServiceShape {
            hot_bytes: self.hot_bytes / heap,
            cold_bytes: self.cold_bytes / heap,
            code_bytes: self.code_bytes / code,
            ..self
        }
    }
}

const FUNCTION_BYTES: u64 = 512;
const STACK_BYTES: u64 = 128 << 10;
const OBJECT_BYTES: u64 = 256;

impl ServiceShape {
    /// The same service in `bytes` bytes: as much code, up to an eighth of them, and the two parts
    /// of the heap in their proportion.
    pub(super) fn of_bytes(self, bytes: u64) -> Self {
        let code_bytes = self.code_bytes.min(bytes / 8) / 4096 * 4096;
        let heap = bytes.saturating_sub(code_bytes + STACK_BYTES) / 4096;
        let share = self.hot_bytes as f64 / (self.hot_bytes + self.cold_bytes) as f64;
        let hot = (heap as f64 * share) as u64;
        ServiceShape {
            code_bytes,
            hot_bytes: hot * 4096,
            cold_bytes: (heap - hot) * 4096,
            ..self
        }
    }
}

/// The service at work.
pub struct ServiceProgram {
    shape: ServiceShape,
    layout: RegionLayout,
    code: u64,
    hot: u64,
    cold: u64,
    stack: u64,
    functions: Zipf,
    objects: Zipf,
    rng: SplitMix64,
}

impl ServiceProgram {
    /// A service of a shape.
    pub fn new(shape: ServiceShape, seed: u64) -> Self {
        let mut layout = RegionLayout::new();
        let hot = layout.anonymous("hot heap", shape.hot_bytes);
        let cold = layout.anonymous("heap", shape.cold_bytes);
        let code = layout.image("text", shape.code_bytes, Backing::Code);
        let stack = layout.stack("stack", STACK_BYTES);
        ServiceProgram {
            shape,
            layout,
            code,
            hot,
            cold,
            stack,
            functions: Zipf::new(shape.code_bytes / FUNCTION_BYTES, shape.code_skew),
            objects: Zipf::new(shape.cold_bytes / OBJECT_BYTES, shape.cold_skew),
            rng: SplitMix64::scattered(seed),
        }
    }

    fn object(&mut self) -> u64 {
        if self.rng.unit() < self.shape.hot_share {
            return self.hot + self.rng.below(self.shape.hot_bytes / OBJECT_BYTES) * OBJECT_BYTES;
        }
        let rank = self.objects.sample(&mut self.rng);
        let objects = self.shape.cold_bytes / OBJECT_BYTES;
        self.cold + mix64(rank ^ 0x0b1e) % objects * OBJECT_BYTES
    }
}

impl Program for ServiceProgram {
    fn name(&self) -> &str {
        self.shape.name
    }

    fn regions(&self) -> &[Region] {
        self.layout.regions()
    }

    /// One function: its code line by line, local data all along, an object now and then.
    fn step(&mut self, recorder: &mut Recorder<'_>) {
        let functions = self.shape.code_bytes / FUNCTION_BYTES;
        let rank = self.functions.sample(&mut self.rng);
        // Hot functions are spread over the code.
        let function = self.code + mix64(rank) % functions * FUNCTION_BYTES;
        let lines = FUNCTION_BYTES / 64;
        let objects = u64::from(self.shape.objects_per_call);
        let locals = u64::from(self.shape.local_accesses) * objects / lines;
        let data_accesses = lines * locals.max(1) + objects * 3;
        let gap =
            u64::from(self.shape.call_instructions).saturating_sub(data_accesses) / data_accesses;
        let gap = gap as u16;
        for line in 0..lines {
            recorder.push(Access::fetch(function + line * 64));
            for i in 0..locals.max(1) {
                let local = self.stack + (rank * 64 + line * 40 + i * 16) % 8192 / 8 * 8;
                let access = if i % 3 == 2 {
                    Access::store
                } else {
                    Access::load
                };
                recorder.push(access(local, gap));
            }
            if line % (lines / objects).max(1) == 0 {
                let object = self.object();
                recorder.push(Access::load(object, gap));
                recorder.push(Access::load(object + 64, gap).after(1));
                recorder.push(Access::store(object + 72, gap));
            }
        }
    }
}

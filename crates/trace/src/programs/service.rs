// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data-centre services as Contiguitas, section 2.3, measures them: large code and large, skewed
//! data. Each request calls a chain of functions (instruction fetches over the whole of the code)
//! that touch objects of a heap; both are chosen by Zipf's law.

use super::Program;
use crate::rng::{Rng, Zipf, mix64};
use crate::{Access, Backing, Layout, Recorder, Region};

/// Shape of a service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServiceShape {
    /// Name on the command line.
    pub name: &'static str,
    /// Code, bytes.
    pub code_bytes: u64,
    /// Zipf exponent over functions.
    pub code_skew: f64,
    /// Heap, bytes.
    pub heap_bytes: u64,
    /// Zipf exponent over objects.
    pub heap_skew: f64,
    /// Instructions of one function call.
    pub call_instructions: u32,
    /// Objects a call touches.
    pub objects_per_call: u32,
}

/// Web-like: hundreds of megabytes of just-in-time compiled code, a heap near the machine's size.
pub const WEB: ServiceShape = ServiceShape {
    name: "web",
    code_bytes: 192 << 20,
    code_skew: 1.05,
    heap_bytes: 24 << 30,
    heap_skew: 0.9,
    call_instructions: 160,
    objects_per_call: 2,
};

/// Cache-like: smaller code, larger and flatter data.
pub const CACHE: ServiceShape = ServiceShape {
    name: "cache",
    code_bytes: 24 << 20,
    code_skew: 1.1,
    heap_bytes: 40 << 30,
    heap_skew: 0.85,
    call_instructions: 240,
    objects_per_call: 2,
};

const FUNCTION_BYTES: u64 = 512;
const OBJECT_BYTES: u64 = 256;

/// The service at work.
pub struct Service {
    shape: ServiceShape,
    layout: Layout,
    code: u64,
    heap: u64,
    stack: u64,
    functions: Zipf,
    objects: Zipf,
    rng: Rng,
}

impl Service {
    /// A service of a shape.
    pub fn new(shape: ServiceShape, seed: u64) -> Self {
        let mut layout = Layout::new();
        let heap = layout.anonymous("heap", shape.heap_bytes);
        let code = layout.image("text", shape.code_bytes, Backing::Code);
        let stack = layout.stack("stack", 128 << 10);
        Service {
            shape,
            layout,
            code,
            heap,
            stack,
            functions: Zipf::new(shape.code_bytes / FUNCTION_BYTES, shape.code_skew),
            objects: Zipf::new(shape.heap_bytes / OBJECT_BYTES, shape.heap_skew),
            rng: Rng::new(seed),
        }
    }

    fn call(&mut self, recorder: &mut Recorder<'_>) {
        let functions = self.shape.code_bytes / FUNCTION_BYTES;
        let rank = self.functions.sample(&mut self.rng);
        // Hot functions are spread over the code.
        let function = self.code + mix64(rank) % functions * FUNCTION_BYTES;
        let lines = FUNCTION_BYTES / 64;
        let per_line = self.shape.call_instructions / lines as u32;
        let objects = self.shape.heap_bytes / OBJECT_BYTES;
        for line in 0..lines {
            recorder.push(Access::fetch(function + line * 64));
            let local = self.stack + (rank * 64 + line * 40) % 8192 / 8 * 8;
            recorder.push(Access::load(local, (per_line / 2) as u16));
            if line % (lines / u64::from(self.shape.objects_per_call)).max(1) == 0 {
                let rank = self.objects.sample(&mut self.rng);
                let object = self.heap + mix64(rank ^ 0x0b1e) % objects * OBJECT_BYTES;
                recorder.push(Access::load(object, (per_line / 4) as u16));
                recorder.push(Access::load(object + 64, 2).after(1));
                recorder.push(Access::store(object + 72, (per_line / 4) as u16));
            } else {
                recorder.push(Access::store(local, (per_line / 2) as u16));
            }
        }
    }
}

impl Program for Service {
    fn name(&self) -> &str {
        self.shape.name
    }

    fn regions(&self) -> &[Region] {
        self.layout.regions()
    }

    fn run(&mut self, recorder: &mut Recorder<'_>) {
        while !recorder.done() {
            self.call(recorder);
        }
    }
}

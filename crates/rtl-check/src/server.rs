// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a server's cores and its NIC access: the programs of the timed machine, without its times.

use ample_machine::multi::{CoreAccess, CoreProgram, Server, Service};

/// The accesses of a server.
pub struct ServerTraffic {
    server: Server,
    cores: u8,
}

impl ServerTraffic {
    /// Frames that pages may move to.
    pub const SPARE_FRAMES: u32 = 32;
    /// Lines of a private cache: few, so that they leave it within a short run.
    pub const PRIVATE_LINES: usize = 1024;

    /// A web server on so many cores.
    pub fn nginx(cores: u8, seed: u64) -> Self {
        Self {
            server: Server::new(Service::Nginx, cores, seed),
            cores,
        }
    }

    /// Pages of its data, network buffers first.
    pub fn pages(&self) -> u32 {
        self.server.data_pages()
    }

    /// Network buffers.
    pub fn buffers(&self) -> u32 {
        Server::buffer_pages(self.cores)
    }

    /// The next access of a core.
    pub fn next(&mut self, core: u8) -> CoreAccess {
        self.server.next(core)
    }

    /// The next access of the NIC, if it has anything to do.
    pub fn next_dma(&mut self) -> Option<CoreAccess> {
        self.server.next_dma()?.1
    }
}

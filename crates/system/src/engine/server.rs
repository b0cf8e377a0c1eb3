// SPDX-License-Identifier: MIT OR Apache-2.0
//! The other end of QEMU's device `ivshmem-doorbell`: memory that the guest sees behind a PCI BAR,
//! a doorbell, and an interrupt (QEMU's "Device Specification for Inter-VM shared memory device",
//! protocol version 0).

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

/// Version of the protocol.
const VERSION: i64 = 0;
/// Peer number of the engine, which the guest's doorbell names.
const ENGINE: i64 = 0;
/// Peer number of the guest, whose vector we write.
const GUEST: i64 = 1;
/// The message that brings the memory.
const MEMORY: i64 = -1;

/// A device that has no guest yet, or one.
#[derive(Debug)]
pub struct EngineServer {
    listener: UnixListener,
    /// Kept open: the emulator takes its end for that of the engine.
    emulator: Option<UnixStream>,
    doorbell: OwnedFd,
    interrupt: OwnedFd,
}

impl EngineServer {
    /// Listens at the socket `path`.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        Ok(EngineServer {
            listener,
            emulator: None,
            doorbell: event()?,
            interrupt: event()?,
        })
    }

    /// Gives the emulator its device, with `memory`, if it has connected; whether it has.
    ///
    /// # Errors
    /// If the connection breaks.
    pub fn accept(&mut self, memory: &impl AsFd) -> io::Result<bool> {
        if self.emulator.is_some() {
            return Ok(true);
        }
        let emulator = match self.listener.accept() {
            Ok((emulator, _)) => emulator,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        emulator.set_nonblocking(false)?;
        tell(&emulator, VERSION, None)?;
        tell(&emulator, GUEST, None)?;
        tell(&emulator, MEMORY, Some(memory.as_fd()))?;
        tell(&emulator, ENGINE, Some(self.doorbell.as_fd()))?;
        tell(&emulator, GUEST, Some(self.interrupt.as_fd()))?;
        self.emulator = Some(emulator);
        Ok(true)
    }

    /// Waits for the guest's doorbell, at most `limit`.
    ///
    /// # Errors
    /// If it cannot be waited for.
    pub fn wait(&self, limit: Duration) -> io::Result<()> {
        let limit = Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        let mut rung = [PollFd::new(&self.doorbell, PollFlags::IN)];
        match poll(&mut rung, Some(&limit)) {
            Err(Errno::INTR) => return Ok(()),
            other => other?,
        };
        let mut count = [0; 8];
        match rustix::io::read(&self.doorbell, &mut count) {
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Interrupts the guest.
    ///
    /// # Errors
    /// If it cannot be done.
    pub fn interrupt(&self) -> io::Result<()> {
        match rustix::io::write(&self.interrupt, &1u64.to_ne_bytes()) {
            // It has not taken the ones before.
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Sends a message, with a file where it brings one.
fn tell(emulator: &UnixStream, message: i64, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = file.as_slice();
    if !files.is_empty() {
        let fits = control.push(SendAncillaryMessage::ScmRights(files));
        debug_assert!(fits, "there is space for one");
    }
    let bytes = message.to_le_bytes();
    let sent = sendmsg(
        emulator,
        &[IoSlice::new(&bytes)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    match sent == bytes.len() {
        true => Ok(()),
        false => Err(io::ErrorKind::WriteZero.into()),
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics on a Unix socket (option `socket=`), for HTTP clients and plain ones.
//!
//! There is no thread for it: the kernel announces each connection and each request by SIGURG,
//! which is ignored where nobody handles it, and unlike a real-time signal never turns into SIGIO,
//! which would end the program. The handler answers; where it meets a thread inside the allocator,
//! the next slow call does. The background thread, if there is one, waits for connections itself.
//!
//! A program may close descriptors that it did not open and get the same numbers for others: each
//! is compared with the inode it was opened with before it is used.

mod answer;

use crate::cache;
use crate::os::lock::{ForkLock, Lock};
use crate::os::report::{Line, warn};
use crate::os::sys;
use crate::os::threads::has_background;
use crate::watch::options::Path;
use crate::watch::stats;
use answer::answer;
use core::sync::atomic::{AtomicBool, Ordering};

/// Requests under way; for a new one the oldest is given up.
const REQUESTS: usize = 16;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 8;
/// Connections accepted in one go.
const MOST_ACCEPTED: usize = 64;
/// The descriptor is above those that programs expect to get.
const LEAST_DESCRIPTOR: i32 = 200;
/// Linux, `include/uapi/asm-generic/fcntl.h`: the signal in place of SIGIO.
const F_SETSIG: i32 = 10;

/// A descriptor with the inode that it had when it was opened.
#[derive(Clone, Copy)]
struct Socket {
    fd: i32,
    inode: u64,
}

struct Server {
    path: Path,
    listener: Socket,
    /// Device and inode of the name in the file system.
    name: (u64, u64),
    requests: [Socket; REQUESTS],
    next: usize,
    /// The process that the sockets belong to.
    pid: i32,
}

static SERVER: Lock<Server> = Lock::new(Server {
    path: Path::NONE,
    listener: Socket::NONE,
    name: (0, 0),
    requests: [Socket::NONE; REQUESTS],
    next: 0,
    pid: 0,
});
/// Whether there may be something to serve at all.
static WANTED: AtomicBool = AtomicBool::new(false);
/// A signal came that was not served yet.
static PENDING: AtomicBool = AtomicBool::new(false);

impl Socket {
    const NONE: Socket = Socket { fd: -1, inode: 0 };

    fn of(fd: i32) -> Socket {
        let inode = if fd < 0 {
            0
        } else {
            status(fd).map_or(0, |status| status.st_ino)
        };
        Socket { fd, inode }
    }

    /// Whether the descriptor is still the socket.
    fn is_open(self) -> bool {
        self.fd >= 0 && status(self.fd).is_some_and(|status| status.st_ino == self.inode)
    }

    fn close(&mut self) {
        if self.is_open() {
            // Not by `close`, which is a cancellation point.
            // SAFETY: the descriptor is this module's own.
            unsafe { libc::syscall(libc::SYS_close, self.fd) };
        }
        *self = Socket::NONE;
    }

    /// Whether the kernel announces what comes by a signal.
    fn announce(self, wanted: bool) {
        let flags = libc::O_NONBLOCK | if wanted { libc::O_ASYNC } else { 0 };
        // SAFETY: settings of the module's own descriptor.
        unsafe {
            libc::fcntl(self.fd, libc::F_SETOWN, libc::getpid());
            libc::fcntl(self.fd, F_SETSIG, libc::SIGURG);
            libc::fcntl(self.fd, libc::F_SETFL, flags);
        }
    }
}

fn status(fd: i32) -> Option<libc::stat> {
    // SAFETY: zero is valid for the structure, which the call fills.
    unsafe {
        let mut status: libc::stat = core::mem::zeroed();
        (libc::fstat(fd, &raw mut status) == 0 && status.st_mode & libc::S_IFMT == libc::S_IFSOCK)
            .then_some(status)
    }
}

/// The lock to shut for a fork, before those of the statistics.
pub fn fork_lock() -> &'static dyn ForkLock {
    &SERVER
}

/// In the child of a fork: the sockets are the parent's. Where the path names the process, the
/// child gets one of its own once it allocates.
pub fn fork_child() {
    if WANTED.load(Ordering::Relaxed) {
        let mut server = SERVER.lock();
        server.drop_sockets();
        WANTED.store(server.path.names_process(), Ordering::Relaxed);
    }
}

/// Opens the socket; to be called when the library has been loaded.
pub fn start(path: Path) {
    if !path.is_some() {
        return;
    }
    let mut server = SERVER.lock();
    server.path = path;
    WANTED.store(true, Ordering::Relaxed);
    server.open();
    drop(server);
    // SAFETY: a zeroed sigaction with a handler that allocates nothing, where the program has none;
    // a function that lives as long as the process.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        let mut old: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        if libc::sigaction(libc::SIGURG, core::ptr::null(), &raw mut old) == 0
            && old.sa_sigaction == libc::SIG_DFL
        {
            libc::sigaction(libc::SIGURG, &raw const action, core::ptr::null_mut());
        }
        libc::atexit(at_exit);
    }
}

extern "C" fn at_exit() {
    if let Some(mut server) = SERVER.try_lock() {
        server.remove_name();
    }
}

extern "C" fn on_signal(_signal: i32) {
    let saved = sys::errno();
    PENDING.store(true, Ordering::Relaxed);
    serve_pending();
    sys::set_errno(saved);
}

/// Serves what a signal announced. To be called without locks, or in a signal handler.
pub fn serve_pending() {
    if PENDING.load(Ordering::Relaxed) && stats::is_readable() {
        serve();
    }
}

/// Serves what is there, announced or not. To be called without locks.
pub fn serve() {
    if !WANTED.load(Ordering::Relaxed) || !cache::unconfined() {
        return;
    }
    loop {
        // Whoever holds the lock looks again before it returns.
        let Some(mut server) = SERVER.try_lock() else {
            return;
        };
        PENDING.store(false, Ordering::Relaxed);
        server.round();
        drop(server);
        if !PENDING.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// Waits for a connection or a request, at most so long; false, at once, if there is no socket.
pub fn wait(pause: &libc::timespec) -> bool {
    if !WANTED.load(Ordering::Relaxed) || !cache::unconfined() {
        return false;
    }
    let mut polled = [libc::pollfd {
        fd: -1,
        events: libc::POLLIN,
        revents: 0,
    }; 1 + REQUESTS];
    {
        let mut server = SERVER.lock();
        server.round();
        let sockets = server.requests.iter().chain([&server.listener]);
        for (poll, socket) in polled.iter_mut().zip(sockets) {
            poll.fd = socket.fd;
        }
    }
    if polled.iter().all(|poll| poll.fd < 0) {
        return false;
    }
    // SAFETY: an array of the given length.
    unsafe {
        libc::ppoll(
            polled.as_mut_ptr(),
            polled.len() as u64,
            pause,
            core::ptr::null(),
        )
    };
    serve();
    true
}

/// Who waits for connections has changed: the background thread, or nobody.
pub fn set_background(runs: bool) {
    if !WANTED.load(Ordering::Relaxed) {
        return;
    }
    let server = SERVER.lock();
    for socket in server.requests.iter().chain([&server.listener]) {
        // The child of a fork shares them, and would take the announcements over.
        if server.is_own() && socket.is_open() {
            socket.announce(!runs);
        }
    }
}

impl Server {
    fn is_own(&self) -> bool {
        // SAFETY: no preconditions.
        self.pid == unsafe { libc::getpid() }
    }

    fn drop_sockets(&mut self) {
        self.listener.close();
        self.requests.iter_mut().for_each(Socket::close);
    }

    /// Takes the name away unless another process has taken it over.
    fn remove_name(&mut self) {
        if self.listener.fd < 0 || !self.is_own() {
            return;
        }
        // SAFETY: C strings, and a structure for which zero is valid.
        unsafe {
            let name = self.path.expand("");
            let mut status: libc::stat = core::mem::zeroed();
            let found = libc::stat(name.as_c(), &raw mut status) == 0;
            if found && (status.st_dev, status.st_ino) == self.name {
                libc::unlink(name.as_c());
            }
        }
        self.drop_sockets();
    }

    /// Opens the socket, or says in one line why not and tries no more. A name that another process
    /// serves is left to it without a word: a program and its children have the same options.
    fn open(&mut self) {
        let name = self.path.expand("");
        let problem = match bind(&name) {
            Ok(socket) => {
                self.listener = socket;
                // SAFETY: no preconditions; a C string, and a structure for which zero is valid.
                unsafe {
                    self.pid = libc::getpid();
                    let mut status: libc::stat = core::mem::zeroed();
                    libc::stat(name.as_c(), &raw mut status);
                    self.name = (status.st_dev, status.st_ino);
                }
                socket.announce(!has_background());
                return;
            }
            Err(problem) => problem,
        };
        WANTED.store(false, Ordering::Relaxed);
        if problem != libc::EPROTOTYPE {
            let text = name.text();
            warn(format_args!(
                "no statistics on the socket \"{text}\": error {problem}"
            ));
        }
    }

    fn round(&mut self) {
        if self.listener.fd < 0 {
            self.open();
        } else if !self.is_own() {
            // A child that shares the memory or was made past the C library.
            return;
        }
        for _ in 0..MOST_ACCEPTED {
            if !self.listener.is_open() || !self.accept() {
                break;
            }
        }
        for request in &mut self.requests {
            if request.fd >= 0 && (!request.is_open() || answer(request.fd)) {
                request.close();
            }
        }
    }

    /// Takes a connection; false if there is none.
    fn accept(&mut self) -> bool {
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: the address is not asked for.
        let fd = unsafe { libc::syscall(libc::SYS_accept4, self.listener.fd, 0, 0, flags) } as i32;
        if fd < 0 {
            return false;
        }
        let mut socket = Socket::of(fd);
        if !has_background() {
            socket.announce(true);
        }
        if answer(fd) {
            socket.close();
            return true;
        }
        let free = self.requests.iter().position(|request| request.fd < 0);
        let place = free.unwrap_or_else(|| {
            self.next = (self.next + 1) % REQUESTS;
            self.next
        });
        self.requests[place].close();
        self.requests[place] = socket;
        true
    }
}

/// A listening socket of that name, which only its owner may use; an error number.
fn bind(name: &Line) -> Result<Socket, i32> {
    // SAFETY: zero is valid for the structure.
    let mut address: libc::sockaddr_un = unsafe { core::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let text = name.text().as_bytes();
    if text.len() >= address.sun_path.len() {
        return Err(libc::ENAMETOOLONG);
    }
    for (to, &from) in address.sun_path.iter_mut().zip(text) {
        *to = from as libc::c_char;
    }
    let (address, len) = (&raw const address, size_of::<libc::sockaddr_un>() as u32);
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: calls with a valid address of that length, and on descriptors opened here.
    unsafe {
        let low = libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | flags, 0);
        let high = libc::fcntl(low, libc::F_DUPFD_CLOEXEC, LEAST_DESCRIPTOR);
        let fd = if high >= 0 { high } else { low };
        if fd < 0 {
            return Err(sys::errno());
        }
        if high >= 0 {
            libc::close(low);
        }
        // The name gets the mode of the socket.
        libc::fchmod(fd, 0o600);
        let mut bound = libc::bind(fd, address.cast(), len) == 0;
        if !bound && sys::errno() == libc::EADDRINUSE && is_stale(address, len, flags) {
            libc::unlink(name.as_c());
            bound = libc::bind(fd, address.cast(), len) == 0;
        }
        if bound && libc::listen(fd, BACKLOG) == 0 {
            return Ok(Socket::of(fd));
        }
        let problem = sys::errno();
        libc::close(fd);
        Err(problem)
    }
}

/// Whether a name is that of a socket whose process is gone. A socket of another type is refused as
/// such (`EPROTOTYPE`) by one that is served, without a connection. Errno says why not.
fn is_stale(address: *const libc::sockaddr_un, len: u32, flags: i32) -> bool {
    // SAFETY: a valid address of that length, and a descriptor opened here.
    unsafe {
        let probe = libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM | flags, 0);
        libc::connect(probe, address.cast(), len);
        let problem = sys::errno();
        libc::close(probe);
        let is_socket = {
            let mut status: libc::stat = core::mem::zeroed();
            libc::stat((*address).sun_path.as_ptr(), &raw mut status) == 0
                && status.st_mode & libc::S_IFMT == libc::S_IFSOCK
        };
        let problem = if is_socket { problem } else { libc::EEXIST };
        sys::set_errno(problem);
        problem == libc::ECONNREFUSED
    }
}

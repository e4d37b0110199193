//! Keeps the process alive when a mapped file is shortened underneath it.
//!
//! Touching a page past the new end of a file raises SIGBUS. The handler here puts a page of zeros in its place, so that the
//! computation goes on with wrong numbers to its end, where `verify_unchanged` turns them into an error. A SIGBUS at any
//! other address is left to whoever handled it before. Knows addresses; knows no file.

#![expect(unsafe_code, reason = "signals and mappings are the operating system's")]

use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most mappings that are guarded at a time; further ones work, without this protection.
const SLOTS: usize = 1024;

/// The guarded addresses: start and end, both zero where the slot is free.
static GUARDED: [[AtomicUsize; 2]; SLOTS] = [const { [const { AtomicUsize::new(0) }; 2] }; SLOTS];
/// What handled SIGBUS before, and the size of a page.
static BEFORE: OnceLock<(libc::sigaction, usize)> = OnceLock::new();

/// Guards a mapping until it is dropped.
pub struct Guard {
    slot: Option<usize>,
}

impl Guard {
    /// Guards the mapping at `addresses`.
    pub fn new(addresses: Range<usize>) -> Self {
        BEFORE.get_or_init(install);
        let free = |[start, end]: &[AtomicUsize; 2]| {
            let taken = start.compare_exchange(0, addresses.start, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            if taken {
                end.store(addresses.end, Ordering::Release);
            }
            taken
        };
        Self { slot: GUARDED.iter().position(free) }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            let [start, end] = &GUARDED[slot];
            end.store(0, Ordering::Release);
            start.store(0, Ordering::Release);
        }
    }
}

fn install() -> (libc::sigaction, usize) {
    // SAFETY: `sigaction` is plain numbers, for which zeros are valid; the handler has the type that SA_SIGINFO asks for and
    // does only what is allowed in one: it reads atomics and makes system calls.
    unsafe {
        let page = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).unwrap_or(4096);
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut before: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as extern "C" fn(_, _, _) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before);
        (before, page)
    }
}

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let Some((before, page)) = BEFORE.get() else { return };
    // SAFETY: the system hands a handler with SA_SIGINFO a valid description of the signal.
    let address = unsafe { (*info).si_addr() } as usize;
    let inside = |[start, end]: &[AtomicUsize; 2]| {
        (start.load(Ordering::Acquire)..end.load(Ordering::Acquire)).contains(&address)
    };
    // SAFETY: the page lies in a mapping that is read-only, guarded and so still in place: replacing it with zeros changes
    // only what is read from a page that no longer exists. Otherwise the handler of before is put back; the instruction runs
    // again on return and raises the signal for it.
    unsafe {
        if GUARDED.iter().any(inside) {
            let at = ptr::without_provenance_mut(address & !(page - 1));
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            if libc::mmap(at, *page, libc::PROT_READ, flags, -1, 0) != libc::MAP_FAILED {
                return;
            }
        }
        libc::sigaction(signal, before, ptr::null_mut());
    }
}

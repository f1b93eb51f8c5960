//! What a thread allocates. Tests run on one thread each, servers included, so that they do not count each other.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

/// So far, on one thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Allocated {
    pub calls: u64,
    pub bytes: u64,
    /// Not given back yet; what other threads give back is missing.
    pub live: i64,
}

thread_local! {
    static SO_FAR: Cell<Allocated> = const { Cell::new(Allocated { calls: 0, bytes: 0, live: 0 }) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(new: usize, old: usize) {
    // a thread that ends counts no more
    let _ = SO_FAR.try_with(|so_far| {
        let mut now = so_far.get();
        now.calls += u64::from(new > 0);
        now.bytes += new as u64;
        now.live += new as i64 - old as i64;
        so_far.set(now);
    });
}

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// What this thread has allocated.
pub(crate) fn allocated() -> Allocated {
    SO_FAR.get()
}

/// What it has allocated since then.
pub(crate) fn since(before: Allocated) -> Allocated {
    let now = allocated();
    Allocated {
        calls: now.calls - before.calls,
        bytes: now.bytes - before.bytes,
        live: now.live - before.live,
    }
}

//! A time of day that tests set: the C library's clock goes through here.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use libc::{c_int, clockid_t, timespec};
use pilothouse_storage::{Embedded, EmbeddedOptions, Storage};

use crate::client::{just, put};

/// Seconds that the time of day is ahead.
static AHEAD: AtomicI64 = AtomicI64::new(0);
/// There is one clock for all tests.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    // SAFETY: the arguments are the caller's.
    let result = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) };
    if result == 0 && clock == libc::CLOCK_REALTIME {
        // SAFETY: the call succeeded, so that the pointer is valid.
        unsafe { (*time).tv_sec += AHEAD.load(Ordering::SeqCst) };
    }
    result as c_int
}

/// A lease neither ends nor lives on because somebody sets the clock.
#[tokio::test]
async fn a_clock_that_jumps_ends_no_lease() {
    let _alone = ALONE.lock().await;
    let dir = tempfile::tempdir().expect("temporary directory");
    let storage = Embedded::open(EmbeddedOptions::new(dir.path())).expect("open");
    let lease = storage
        .grant_lease(Duration::from_secs(3600))
        .await
        .expect("grant");
    storage
        .txn(just(put("/leased", "1", lease)))
        .await
        .expect("put");
    for ahead in [0, 7200, 400 * 24 * 3600, -7200] {
        AHEAD.store(ahead, Ordering::SeqCst);
        storage.tick().await.expect("tick");
        let kept = storage
            .get("/leased", None)
            .await
            .expect("get")
            .kv
            .is_some();
        AHEAD.store(0, Ordering::SeqCst);
        assert!(kept, "{ahead} seconds ahead");
    }
}

/// Set back for good, the clock still ends leases: what counts is how long the server has run.
#[tokio::test]
async fn a_clock_that_was_set_back_still_ends_leases() {
    let _alone = ALONE.lock().await;
    let dir = tempfile::tempdir().expect("temporary directory");
    let storage = Embedded::open(EmbeddedOptions::new(dir.path())).expect("open");
    let lease = storage
        .grant_lease(Duration::from_millis(1))
        .await
        .expect("grant");
    storage.txn(just(put("/leased", "1", lease))).await.ok(); // it may have ended already
    AHEAD.store(-7200, Ordering::SeqCst);
    let granted = std::time::Instant::now();
    while granted.elapsed() < Duration::from_millis(2) {
        std::thread::yield_now();
    }
    let ticked = storage.tick().await;
    AHEAD.store(0, Ordering::SeqCst);
    ticked.expect("tick");
    assert!(
        storage
            .get("/leased", None)
            .await
            .expect("get")
            .kv
            .is_none()
    );
}

//! A disk that does as it is told: the system calls by which this process changes files go through here.
//!
//! The functions below have the names of the C library's, so that the linker takes them instead; the real ones are reached by
//! `syscall`. A [`Disk`] rules over one directory: it can refuse or shorten writes, refuse or delay syncs, be full, and lose its
//! power. After that it shows what a real one could hold: of everything written since a file's last sync, any sectors.

use std::{
    collections::HashMap,
    ffi::{CStr, OsString},
    fs,
    io::{Read, Seek, SeekFrom},
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use libc::{c_char, c_int, c_void, iovec, off_t, size_t, ssize_t};
use rand::{Rng, rngs::StdRng};

const SECTOR: usize = 512;
/// Whoever waits for a call that is held goes on after this, so that a test fails and does not hang.
const LONGEST_HOLD: Duration = Duration::from_secs(60);

/// What happens to calls that match.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Fails with this error number.
    Error(c_int),
    /// Writes at most so many bytes at once.
    Short(usize),
    /// Takes until other rules hold.
    Hold,
}

/// Which calls fail how. Files are chosen by a part of their path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    pub(crate) call: Call,
    pub(crate) file: &'static str,
    /// So many calls are let through first.
    pub(crate) after: usize,
    pub(crate) times: usize,
    pub(crate) fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Write,
    Sync,
}

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    /// How often the rules have changed.
    changes: usize,
    held: usize,
    /// Bytes that can still be written.
    free: Option<usize>,
    /// Calls until the power fails, and whether it has.
    power_fails_in: Option<usize>,
    off: bool,
    /// What files held when they were last synced.
    synced: HashMap<PathBuf, Vec<u8>>,
}

struct Ruled {
    dir: PathBuf,
    state: Mutex<State>,
    rules_change: Condvar,
}

static RULED: Mutex<Vec<Arc<Ruled>>> = Mutex::new(Vec::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A directory whose disk obeys; dropping it makes it an ordinary one.
pub(crate) struct Disk(Arc<Ruled>);

impl Disk {
    /// What is there already is durable.
    pub(crate) fn at(dir: &Path) -> Self {
        let dir = dir.canonicalize().expect("the directory exists");
        let mut state = State::default();
        let mut files = Vec::new();
        walk(&dir, &mut files);
        for path in files {
            let bytes = data(&path);
            state.synced.insert(path, bytes);
        }
        let state = Mutex::new(state);
        let ruled = Arc::new(Ruled {
            dir,
            state,
            rules_change: Condvar::new(),
        });
        lock(&RULED).push(ruled.clone());
        COUNT.fetch_add(1, Ordering::SeqCst);
        Self(ruled)
    }

    /// From now on these rules hold, and no others.
    pub(crate) fn obey(&self, rules: &[Rule]) {
        let mut state = self.0.state();
        state.rules = rules.to_vec();
        state.changes += 1;
        self.0.rules_change.notify_all();
    }

    /// Whether a call is being held.
    pub(crate) fn holds(&self) -> bool {
        self.0.state().held > 0
    }

    /// Lets so many more bytes be written; `None` is no limit.
    pub(crate) fn set_free(&self, bytes: Option<usize>) {
        self.0.state().free = bytes;
    }

    /// After so many more calls nothing reaches the disk any more.
    pub(crate) fn fail_power_in(&self, calls: usize) {
        self.0.state().power_fails_in = Some(calls);
    }

    /// Writes into `target` what the disk could hold after its power failed.
    pub(crate) fn survivors(&self, target: &Path, chance: &mut StdRng) {
        let state = self.0.state();
        let mut files = Vec::new();
        walk(&self.0.dir, &mut files);
        files.sort();
        for path in files {
            let now = data(&path);
            let nothing = Vec::new();
            let synced = state.synced.get(&path);
            let mixed = mix(synced.unwrap_or(&nothing), &now, chance);
            if synced.is_some() || chance.random() {
                put(&self.0.dir, &path, target, &mixed);
            }
        }
        // The removal of a file is not durable at once either.
        let mut removed: Vec<_> = state
            .synced
            .iter()
            .filter(|(path, _)| !path.exists())
            .collect();
        removed.sort();
        for (path, bytes) in removed {
            if chance.random_ratio(1, 4) {
                put(&self.0.dir, path, target, bytes);
            }
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        lock(&RULED).retain(|ruled| !Arc::ptr_eq(ruled, &self.0));
        COUNT.fetch_sub(1, Ordering::SeqCst);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn walk(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("read the directory") {
        let path = entry.expect("entry").path();
        match path.is_dir() {
            true => walk(&path, files),
            false => files.push(path),
        }
    }
}

fn put(from: &Path, path: &Path, to: &Path, bytes: &[u8]) {
    let target = to.join(path.strip_prefix(from).expect("below"));
    fs::create_dir_all(target.parent().expect("a folder")).expect("create");
    fs::write(target, bytes).expect("write");
}

/// Each sector is either what was synced or what was written since.
fn mix(synced: &[u8], now: &[u8], chance: &mut StdRng) -> Vec<u8> {
    let length = match chance.random() {
        true => synced.len(),
        false => now.len(),
    };
    let mut mixed = Vec::with_capacity(length);
    while mixed.len() < length {
        let from = if chance.random() { synced } else { now };
        let sector = (length - mixed.len()).min(SECTOR);
        let bytes = from.get(mixed.len()..).unwrap_or_default();
        let bytes = &bytes[..bytes.len().min(sector)];
        let end = mixed.len() + sector;
        mixed.extend(bytes);
        mixed.resize(end, 0);
    }
    mixed
}

/// A file up to its last data: journals are made long and sparse.
fn data(path: &Path) -> Vec<u8> {
    use rustix::fs::SeekFrom::{Data, Hole};
    let mut file = fs::File::open(path).expect("open");
    let mut bytes = Vec::new();
    while let Ok(start) = rustix::fs::seek(&file, Data(bytes.len() as u64)) {
        let end = rustix::fs::seek(&file, Hole(start)).expect("seek");
        bytes.resize(start as usize, 0);
        file.seek(SeekFrom::Start(start)).expect("seek");
        let read = (&file).take(end - start).read_to_end(&mut bytes);
        if read.expect("read") == 0 {
            break;
        }
    }
    bytes
}

enum Verdict {
    Pass,
    Shorten(usize),
    Refuse(c_int),
}

impl Ruled {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Of a file that is its data, of a folder the names in it. `false` if the power failed meanwhile.
    fn synced(&self, path: PathBuf) -> bool {
        if !path.is_dir() {
            let bytes = data(&path);
            let mut state = self.state();
            if !state.off {
                state.synced.insert(path, bytes);
            }
            return !state.off;
        }
        let mut state = self.state();
        if state.off {
            return false;
        }
        let inside = |file: &Path| file.parent() == Some(&*path);
        state
            .synced
            .retain(|file, _| !inside(file) || file.exists());
        for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
            if entry.path().is_file() {
                state.synced.entry(entry.path()).or_default();
            }
        }
        true
    }

    fn judge(&self, call: Call, path: &Path, length: usize) -> Verdict {
        let mut state = self.state();
        if let Some(calls) = &mut state.power_fails_in {
            *calls = calls.saturating_sub(1);
            state.off |= state.power_fails_in == Some(0);
        }
        if state.off {
            return Verdict::Refuse(libc::EIO);
        }
        let path = path.to_string_lossy();
        let mut matching = state
            .rules
            .iter_mut()
            .filter(|rule| rule.call == call && rule.times > 0 && path.contains(rule.file));
        if let Some(rule) = matching.next() {
            if rule.after > 0 {
                rule.after -= 1;
                return Verdict::Pass;
            }
            rule.times -= 1;
            match rule.fault {
                Fault::Error(number) => return Verdict::Refuse(number),
                Fault::Short(most) => return Verdict::Shorten(most.min(length)),
                Fault::Hold => {
                    self.hold(state);
                    return Verdict::Pass;
                }
            }
        }
        match (&mut state.free, call) {
            (Some(0), Call::Write) if length > 0 => Verdict::Refuse(libc::ENOSPC),
            (Some(free), Call::Write) => {
                let written = length.min(*free);
                *free -= written;
                Verdict::Shorten(written)
            }
            _ => Verdict::Pass,
        }
    }

    fn hold(&self, mut state: MutexGuard<'_, State>) {
        state.held += 1;
        let since = state.changes;
        let unchanged = |state: &mut State| state.changes == since;
        let waited = self
            .rules_change
            .wait_timeout_while(state, LONGEST_HOLD, unchanged);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.held -= 1;
    }
}

/// The disk that rules over an open file.
fn ruled(fd: c_int) -> Option<(Arc<Ruled>, PathBuf)> {
    if COUNT.load(Ordering::SeqCst) == 0 {
        return None;
    }
    let path = fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    Some((ruling(&path)?, path))
}

fn ruling(path: &Path) -> Option<Arc<Ruled>> {
    let ruled = lock(&RULED);
    ruled
        .iter()
        .find(|ruled| path.starts_with(&ruled.dir))
        .cloned()
}

fn refuse(number: c_int) -> ssize_t {
    // SAFETY: the address of this thread's error number is always valid.
    unsafe { *libc::__errno_location() = number };
    -1
}

fn write_with(fd: c_int, length: usize, real: impl FnOnce(usize) -> ssize_t) -> ssize_t {
    let Some((disk, path)) = ruled(fd) else {
        return real(length);
    };
    match disk.judge(Call::Write, &path, length) {
        Verdict::Pass => real(length),
        Verdict::Shorten(length) => real(length),
        Verdict::Refuse(number) => refuse(number),
    }
}

fn sync_with(fd: c_int, real: impl FnOnce() -> c_int) -> c_int {
    let Some((disk, path)) = ruled(fd) else {
        return real();
    };
    match disk.judge(Call::Sync, &path, 0) {
        Verdict::Refuse(number) => refuse(number) as c_int,
        _ => {
            let result = real();
            match result == 0 && !disk.synced(path) {
                true => refuse(libc::EIO) as c_int,
                false => result,
            }
        }
    }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn write(fd: c_int, buffer: *const c_void, count: size_t) -> ssize_t {
    // SAFETY: the arguments are the caller's, with a count that is not larger.
    let real =
        |count: usize| unsafe { libc::syscall(libc::SYS_write, fd, buffer, count) as ssize_t };
    write_with(fd, count, real)
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    if ruled(fd).is_none() || count == 0 {
        // SAFETY: the arguments are the caller's.
        return unsafe { libc::syscall(libc::SYS_writev, fd, parts, count) as ssize_t };
    }
    // SAFETY: there is at least one part; to write only the first is a short write.
    unsafe { write(fd, (*parts).iov_base, (*parts).iov_len) }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite64(
    fd: c_int,
    buffer: *const c_void,
    count: size_t,
    offset: off_t,
) -> ssize_t {
    // SAFETY: the arguments are the caller's, with a count that is not larger.
    let real = |count: usize| unsafe {
        libc::syscall(libc::SYS_pwrite64, fd, buffer, count, offset) as ssize_t
    };
    write_with(fd, count, real)
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn fsync(fd: c_int) -> c_int {
    // SAFETY: the argument is the caller's.
    sync_with(fd, || unsafe {
        libc::syscall(libc::SYS_fsync, fd) as c_int
    })
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
    // SAFETY: the argument is the caller's.
    sync_with(fd, || unsafe {
        libc::syscall(libc::SYS_fdatasync, fd) as c_int
    })
}

/// What was synced under one name is synced under the other.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: the caller gives two strings that end.
    let [old, new] = [from, to].map(|name| unsafe { CStr::from_ptr(name) });
    let [old, new] =
        [old, new].map(|name| PathBuf::from(OsString::from_vec(name.to_bytes().into())));
    let disk = (COUNT.load(Ordering::SeqCst) > 0)
        .then(|| ruling(&old))
        .flatten();
    if let Some(disk) = &disk
        && disk.state().off
    {
        return refuse(libc::EIO) as c_int;
    }
    // SAFETY: the arguments are the caller's.
    let result = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            libc::AT_FDCWD,
            from,
            libc::AT_FDCWD,
            to,
            0,
        )
    };
    if let Some(disk) = disk.filter(|_| result == 0) {
        let mut state = disk.state();
        if let Some(bytes) = state.synced.remove(&old) {
            state.synced.insert(new, bytes);
        }
    }
    result as c_int
}

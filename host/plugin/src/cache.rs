//! Compiled components on disk, so that no later start compiles anything.
//!
//! An entry is two files named after the SHA-256 of the WebAssembly and of everything that the engine's code depends on:
//! `<key>.cwasm` with the code and `<key>.sum` with its SHA-256. Both are written beside and renamed, the sum last; an entry
//! whose sum is absent or wrong is compiled anew. Code is mapped from the file, so its pages are shared and dropped at need.
//!
//! The directory must belong to the host alone: what is in it runs as native code.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use sha2::{Digest, Sha256};
use wasmtime::component::Component;

use crate::{engine::compile_error, error::LoadError};

pub(crate) struct CompileCache {
    dir: PathBuf,
    /// Of the engine's version and configuration.
    engine: u64,
    compiled: AtomicU64,
}

impl CompileCache {
    /// Makes the directory, for its owner only.
    pub(crate) fn open(dir: PathBuf, engine: &wasmtime::Engine) -> io::Result<Self> {
        fs::create_dir_all(&dir)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&dir, fs::Permissions::from_mode(0o700))?;
        }
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Ok(Self {
            dir,
            engine: hasher.finish(),
            compiled: AtomicU64::new(0),
        })
    }

    pub(crate) fn compiled(&self) -> u64 {
        self.compiled.load(Relaxed)
    }

    /// The component, from the cache if its entry is whole. A cache that cannot be written costs time, not the plugin.
    pub(crate) fn load(
        &self,
        engine: &wasmtime::Engine,
        wasm: &[u8],
    ) -> Result<Component, LoadError> {
        let path = self.dir.join(self.key(wasm));
        if let Some(component) = read(engine, &path) {
            return Ok(component);
        }
        let component = Component::from_binary(engine, wasm).map_err(compile_error)?;
        self.compiled.fetch_add(1, Relaxed);
        let code = component.serialize().map_err(compile_error)?;
        if let Err(error) = write(&path, &code) {
            tracing::warn!(%error, path = %path.display(), "cannot keep a compiled component");
            return Ok(component);
        }
        Ok(read(engine, &path).unwrap_or(component))
    }

    fn key(&self, wasm: &[u8]) -> String {
        let mut hash = Sha256::new();
        hash.update(wasm);
        hash.update(self.engine.to_le_bytes());
        format!("{:x}", hash.finalize())
    }
}

fn read(engine: &wasmtime::Engine, path: &Path) -> Option<Component> {
    let sum = fs::read(path.with_extension("sum")).ok()?;
    let path = path.with_extension("cwasm");
    let code = fs::read(&path).ok()?;
    if Sha256::digest(&code).as_slice() != sum {
        tracing::warn!(path = %path.display(), "a compiled component is damaged; it is compiled anew");
        return None;
    }
    drop(code);
    // SAFETY: the file is what this program wrote (its sum says so), in a directory that belongs to it alone, and it is only
    // ever replaced by a rename, never changed in place.
    match unsafe { Component::deserialize_file(engine, &path) } {
        Ok(component) => Some(component),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a compiled component does not load; it is compiled anew");
            None
        }
    }
}

fn write(path: &Path, code: &[u8]) -> io::Result<()> {
    replace(&path.with_extension("cwasm"), code)?;
    replace(&path.with_extension("sum"), &Sha256::digest(code))
}

/// Writes beside and renames, so that the name always has a whole file.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    static TURN: AtomicU64 = AtomicU64::new(0);
    let turn = TURN.fetch_add(1, Relaxed);
    let beside = path.with_extension(format!("{}-{turn}.tmp", std::process::id()));
    fs::write(&beside, content)?;
    fs::rename(&beside, path).inspect_err(|_| _ = fs::remove_file(&beside))
}

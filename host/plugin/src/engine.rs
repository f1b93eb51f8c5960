//! The `wasmtime::Engine` of the process, its clock tick, its imports and its compile cache; and a second one for components whose
//! instructions are limited, since code that counts them is compiled differently and slower.
//!
//! Invariants: epoch interruption is always on and always ticking; component-model concurrency is off (interfaces are sync WIT);
//! everything that is run was loaded through the cache, so a later start compiles nothing.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
    thread,
    time::Duration,
};

use wasmtime::{
    Config, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig, WasmBacktrace,
    WasmBacktraceDetails,
    component::{Component, Linker},
};

use crate::{
    cache::CompileCache,
    clock::{Clock, SystemClock},
    error::LoadError,
    host::{self, HostState},
    limits::Limits,
};

/// Address space reserved for an instance's memory; growth beyond moves it.
const MEMORY_RESERVATION: u64 = 64 << 20;
const MEMORY_GUARD: u64 = 64 << 10;
const WASM_STACK: usize = 512 << 10;
const FIBER_STACK: usize = 1 << 20;
const TICK: Duration = Duration::from_millis(1);

/// Where instances get their memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Allocation {
    /// Mapped for each instance and returned after it.
    #[default]
    OnDemand,
    /// From slots that are kept; at most so many instances at a time.
    Pooling { instances: u32 },
}

/// How to build an [`Engine`].
pub struct EngineConfig {
    /// Where compiled components are kept; `None`: in memory only, so that every start compiles.
    pub cache_dir: Option<PathBuf>,
    pub allocation: Allocation,
    /// Whether traps tell the author's line, for components that carry debug information. Compiled code is larger with it.
    pub lines: bool,
    pub clock: Arc<dyn Clock>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            cache_dir: None,
            allocation: Allocation::default(),
            lines: false,
            clock: Arc::new(SystemClock::default()),
        }
    }
}

/// Compiles and instantiates; cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    plain: Machine,
    /// Made when the first component needs it: most instructions are followed by one that counts.
    metered: OnceLock<Machine>,
    config: EngineConfig,
}

/// A `wasmtime::Engine` with what belongs to it.
pub(crate) struct Machine {
    pub(crate) engine: wasmtime::Engine,
    pub(crate) linker: Linker<HostState>,
    cache: Option<CompileCache>,
}

impl Engine {
    /// Starts the ticking thread, which ends with the last clone. Fails if the machine cannot run WebAssembly as configured or
    /// the cache directory cannot be made.
    pub fn new(config: EngineConfig) -> Result<Self, EngineError> {
        Ok(Self(Arc::new(Inner {
            plain: Machine::new(&config, Metering::Off)?,
            metered: OnceLock::new(),
            config,
        })))
    }

    /// Where components with these limits are compiled and run.
    pub(crate) fn machine(&self, limits: &Limits) -> Result<&Machine, LoadError> {
        if limits.instructions.is_none() {
            return Ok(&self.0.plain);
        }
        if let Some(metered) = self.0.metered.get() {
            return Ok(metered);
        }
        let made = Machine::new(&self.0.config, Metering::On)
            .map_err(|error| LoadError::Compile(error.to_string()))?;
        Ok(self.0.metered.get_or_init(|| made))
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.config.clock
    }

    /// Components compiled, not loaded from the cache, since the engine was made.
    pub fn compiled(&self) -> u64 {
        let machines = [Some(&self.0.plain), self.0.metered.get()];
        let caches = machines
            .into_iter()
            .flatten()
            .filter_map(|m| m.cache.as_ref());
        caches.map(CompileCache::compiled).sum()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Metering {
    Off,
    /// Instructions are counted, so that they can be limited.
    On,
}

impl Machine {
    fn new(config: &EngineConfig, metering: Metering) -> Result<Self, EngineError> {
        let mut wasmtime = wasmtime_config(config.allocation);
        if config.lines {
            wasmtime
                .generate_address_map(true)
                .wasm_backtrace_details(WasmBacktraceDetails::Enable);
        }
        wasmtime.consume_fuel(metering == Metering::On);
        let engine =
            wasmtime::Engine::new(&wasmtime).map_err(|error| EngineError(format!("{error:#}")))?;
        let linker = host::link(&engine).map_err(|error| EngineError(format!("{error:#}")))?;
        let cache = config
            .cache_dir
            .as_ref()
            .map(|dir| CompileCache::open(dir.clone(), &engine))
            .transpose()
            .map_err(|error| EngineError(format!("the compile cache: {error}")))?;
        tick(&engine)?;
        Ok(Self {
            engine,
            linker,
            cache,
        })
    }

    /// Loads a component, compiling it if the cache has not got it. Blocks for the time of a compilation (tens to hundreds of
    /// milliseconds), on all cores.
    pub(crate) fn load(&self, wasm: &[u8]) -> Result<Component, LoadError> {
        match &self.cache {
            Some(cache) => cache.load(&self.engine, wasm),
            None => Component::from_binary(&self.engine, wasm).map_err(compile_error),
        }
    }
}

/// The engine cannot be made.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the plugin engine cannot start: {0}")]
pub struct EngineError(String);

pub(crate) fn compile_error(error: wasmtime::Error) -> LoadError {
    LoadError::Compile(one_line(&error))
}

/// The causes of an error in one line, without a backtrace.
pub(crate) fn one_line(error: &wasmtime::Error) -> String {
    let causes: Vec<String> = error
        .chain()
        .map(|cause| cause.to_string())
        .filter(|cause| !cause.starts_with("error while executing"))
        .collect();
    causes
        .join(": ")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// Where a guest trapped, as far as the component tells: `parse at src/lib.rs:12`, or the function alone. The standard library's own
/// functions are passed over.
pub(crate) fn place(error: &wasmtime::Error) -> Option<String> {
    let backtrace = error.downcast_ref::<WasmBacktrace>()?;
    let lines = backtrace.frames().iter().flat_map(|frame| frame.symbols());
    for symbol in lines {
        let (Some(file), Some(line)) = (symbol.file(), symbol.line()) else {
            continue;
        };
        if !is_of_a_runtime(file) {
            let function = symbol.name().unwrap_or("?");
            return Some(format!("{function} at {file}:{line}"));
        }
    }
    let names = backtrace
        .frames()
        .iter()
        .filter_map(|frame| frame.func_name());
    let mut names = names.map(|name| format!("{:#}", rustc_demangle::demangle(name)));
    names.find(|name| !is_of_rust(name))
}

/// Whether a function belongs to what Rust brings along.
fn is_of_rust(function: &str) -> bool {
    let name = function.trim_start_matches('<');
    ["core::", "alloc::", "std::", "__rust", "rust_", "abort"]
        .iter()
        .any(|beginning| name.starts_with(beginning))
}

/// Whether a source file belongs to what a language brings along.
fn is_of_a_runtime(file: &str) -> bool {
    ["/rustc/", "/.cargo/registry/", "library/std/", "wasi-libc"]
        .iter()
        .any(|part| file.contains(part))
}

fn wasmtime_config(allocation: Allocation) -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .concurrency_support(false)
        .cranelift_opt_level(OptLevel::Speed)
        .relaxed_simd_deterministic(true)
        .generate_address_map(false)
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .max_wasm_stack(WASM_STACK)
        .async_stack_size(FIBER_STACK)
        .memory_reservation(MEMORY_RESERVATION)
        .memory_reservation_for_growth(0)
        .memory_guard_size(MEMORY_GUARD)
        .guard_before_linear_memory(false);
    if let Allocation::Pooling { instances } = allocation {
        let mut pool = PoolingAllocationConfig::new();
        pool.total_component_instances(instances)
            .total_core_instances(instances * 8)
            .total_memories(instances * 2)
            .total_tables(instances * 4)
            .total_stacks(instances)
            .max_memory_size(MEMORY_RESERVATION as usize)
            .table_elements(100_000)
            .max_unused_warm_slots(8);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    }
    config
}

/// Advances the epoch every millisecond for as long as the engine lives.
fn tick(engine: &wasmtime::Engine) -> Result<(), EngineError> {
    let weak = engine.weak();
    let ticking = move || {
        while let Some(engine) = weak.upgrade() {
            engine.increment_epoch();
            drop(engine);
            thread::sleep(TICK);
        }
    };
    thread::Builder::new()
        .name("plugin-epoch".to_owned())
        .spawn(ticking)
        .map_err(|error| EngineError(format!("its ticking thread: {error}")))?;
    Ok(())
}

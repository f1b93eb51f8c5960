//! `cargo xtask bench [name…]`: prints the project's figures. Nothing here asserts a time: figures are to be read and compared
//! within one run, since machines differ and are shared.

mod admission;
mod decisions;
mod load;
mod reloading;
mod requests;
mod scheduling;
mod snapshots;
mod start;
mod storage;
mod watching;

use anyhow::{Result, bail};

/// A measurement: its name on the command line and what runs it.
type Measurement = (&'static str, fn() -> Result<()>);

const MEASUREMENTS: &[Measurement] = &[
    ("start", start::time_to_ready),
    ("memory", start::idle_memory),
    ("create", requests::creates),
    ("get", requests::gets),
    ("list", requests::lists),
    ("watch", watching::fan_out),
    ("admission", admission::calls),
    ("reload", reloading::under_load),
    ("decide", decisions::decisions),
    ("schedule", scheduling::end_to_end_at_1000_nodes),
    ("storage", storage::storage),
    ("snapshot", snapshots::snapshots),
];

fn main() -> Result<()> {
    load::raise_file_limit();
    if storage::opened_for_another()? {
        return Ok(());
    }
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    for name in &wanted {
        if !MEASUREMENTS.iter().any(|(known, _)| known == name) {
            let known: Vec<&str> = MEASUREMENTS.iter().map(|(name, _)| *name).collect();
            bail!(
                "no measurement is called {name:?}; there are: {}",
                known.join(", ")
            );
        }
    }
    for (name, run) in MEASUREMENTS {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            run()?;
        }
    }
    Ok(())
}

/// One figure, in the form that all of them have.
fn print(name: &str, value: f64, unit: &str, note: &str) {
    println!("{name:<58} {value:>12.2} {unit:<10} {note}");
}

//! The guarantees in the crate's documentation name tests that exist.

use std::{fs, path::Path};

/// The name of a test as the documentation has it: its file and its function.
fn named(documentation: &str) -> Vec<(&str, &str)> {
    let quoted = documentation.split('`').skip(1).step_by(2);
    quoted.filter_map(|name| name.split_once("::")).collect()
}

fn exists(module: &str, function: &str) -> bool {
    ["conformance", "faults"].iter().any(|suite| {
        let file = format!("tests/{suite}/{module}.rs");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let source = fs::read_to_string(path).unwrap_or_default();
        source.contains(&format!("async fn {function}("))
            || source.contains(&format!("#[test]\nfn {function}("))
    })
}

#[test]
fn every_guarantee_names_tests_that_exist() {
    let library = include_str!("../src/lib.rs");
    let documentation: Vec<&str> = library
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .collect();
    let mut guarantees: Vec<String> = Vec::new();
    for line in &documentation {
        let line = line.trim();
        let number = format!("{}. ", guarantees.len() + 1);
        match (line.strip_prefix(&number), guarantees.last_mut()) {
            (Some(first), _) => guarantees.push(first.to_owned()),
            (None, Some(guarantee)) => guarantee.push_str(line),
            (None, None) => {}
        }
    }
    assert!(guarantees.len() >= 12, "{guarantees:#?}");
    for guarantee in &guarantees {
        let tests = named(guarantee);
        assert!(!tests.is_empty(), "no test holds this: {guarantee}");
        for (module, function) in tests {
            assert!(exists(module, function), "there is no {module}::{function}");
        }
    }
    assert!(!exists("power", "a_test_that_is_not_there"));
}

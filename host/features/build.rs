//! Without a build script Cargo would ignore the build dependencies.

fn main() {}

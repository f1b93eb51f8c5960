//! What a component exports and imports, and whether Pilothouse can use it. Every refusal is one sentence.

use std::collections::BTreeSet;

use wasmtime::component::{
    Component,
    types::{ComponentExtern, ComponentItem},
};

use crate::{
    error::LoadError,
    host,
    interfaces::{self, Interface},
};

/// The header of a component: the magic number, the layer 1.
const COMPONENT: [u8; 8] = [0, b'a', b's', b'm', 0x0d, 0, 1, 0];
/// The header of a core module.
const MODULE: [u8; 8] = [0, b'a', b's', b'm', 1, 0, 0, 0];

/// Refuses what is no component, before anything is compiled.
pub(crate) fn check_header(wasm: &[u8]) -> Result<(), LoadError> {
    match wasm.get(..8) {
        Some(header) if header == COMPONENT => Ok(()),
        Some(header) if header == MODULE => Err(LoadError::CoreModule),
        _ => Err(LoadError::NotAComponent),
    }
}

/// The known interfaces that the component exports, as it names them, besides the manifest.
pub(crate) fn exports(
    engine: &wasmtime::Engine,
    component: &Component,
) -> Result<Vec<Interface>, LoadError> {
    let kind = component.component_type();
    let names: Vec<&str> = kind.exports(engine).map(|(name, _)| name).collect();
    let mut found = Vec::new();
    let mut manifest = false;
    for exported in names.iter().filter_map(|name| Interface::parse(name)) {
        let Some(known) = interfaces::find(&exported.package, &exported.name) else {
            continue;
        };
        if !known.version.compatible(exported.version) {
            return Err(LoadError::UnknownVersion {
                direction: "exports",
                interface: exported.path(),
                found: exported.version.to_string(),
                known: known.version.to_string(),
            });
        }
        match known.family() {
            "host" => manifest |= known.name == "manifest",
            _ => found.push(exported),
        }
    }
    if found.is_empty() {
        let names = match names.as_slice() {
            [] => "nothing".to_owned(),
            names => names.join(", "),
        };
        return Err(LoadError::NothingKnown(names));
    }
    match manifest {
        true => Ok(found),
        false => Err(LoadError::NoManifest),
    }
}

/// Refuses imports that are not offered.
pub(crate) fn imports(engine: &wasmtime::Engine, component: &Component) -> Result<(), LoadError> {
    let kind = component.component_type();
    for (name, item) in kind.imports(engine) {
        if !offered(name) && !only_types(engine, &item) {
            return Err(LoadError::UnknownImport(name.to_owned()));
        }
        if let Some(imported) = Interface::parse(name)
            && let Some(known) = interfaces::find(&imported.package, &imported.name)
            && !known.version.compatible(imported.version)
        {
            return Err(LoadError::UnknownVersion {
                direction: "imports",
                interface: imported.path(),
                found: imported.version.to_string(),
                known: known.version.to_string(),
            });
        }
    }
    Ok(())
}

fn offered(name: &str) -> bool {
    let Some(imported) = Interface::parse(name) else {
        return false;
    };
    match imported.package.as_str() {
        "pilothouse:host" => interfaces::find(&imported.package, &imported.name).is_some(),
        package => {
            host::WASI_PACKAGES.contains(&package)
                && imported.version.major == 0
                && imported.version.minor == 2
        }
    }
}

/// An interface without functions or resources needs nothing of the host.
fn only_types(engine: &wasmtime::Engine, item: &ComponentExtern<'_>) -> bool {
    match &item.ty {
        ComponentItem::ComponentInstance(instance) => instance
            .exports(engine)
            .all(|(_, item)| matches!(&item.ty, ComponentItem::Type(_))),
        ComponentItem::Type(_) => true,
        _ => false,
    }
}

/// The families of the interfaces, each once.
pub(crate) fn families(interfaces: &[Interface]) -> BTreeSet<&str> {
    interfaces.iter().map(Interface::family).collect()
}

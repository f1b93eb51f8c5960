//! Reads the table.

use std::{collections::HashMap, sync::OnceLock};

use super::{Facts, Field, Kind, ListType, Package, Patch, Shape, Type, TypeRef};

type Read<T> = Result<T, String>;

/// Names of types by package number, as shapes refer to them.
type Names = HashMap<(usize, &'static str), TypeRef>;

pub(super) fn table(text: &'static str) -> Read<Facts> {
    let names = names(text)?;
    let mut packages: Vec<&'static Package> = Vec::new();
    let mut types: Vec<Type> = Vec::with_capacity(names.len());
    for line in text.lines() {
        if let Some(words) = line.strip_prefix("@ ") {
            packages.push(Box::leak(Box::new(package(words)?))); // one table for the life of the process
        } else if let Some(words) = line.strip_prefix(' ') {
            let home = packages.len() - 1;
            let field = field(words, home, &names).ok_or_else(|| format!("bad field: {line}"))?;
            let owner = types.last_mut().ok_or("a field before any type")?;
            owner.fields.push(field);
        } else {
            let package = packages.last().ok_or("a type before any package")?;
            types.push(new_type(line, package)?);
        }
    }
    Ok(index(types))
}

fn names(text: &'static str) -> Read<Names> {
    let mut names = Names::new();
    let mut packages = 0usize;
    for line in text.lines() {
        if line.starts_with("@ ") {
            packages += 1;
        } else if !line.starts_with(' ') {
            let number = u16::try_from(names.len()).map_err(|_| "too many types")?;
            let name = line.split(' ').next().unwrap_or(line);
            let home = packages.checked_sub(1).ok_or("a type before any package")?;
            names.insert((home, name), TypeRef(number));
        }
    }
    Ok(names)
}

fn package(words: &'static str) -> Read<Package> {
    let words: Vec<&'static str> = words.split(' ').collect();
    match words.as_slice() {
        [_, schema, proto, group, version] => Ok(Package {
            schema,
            proto,
            group_version: match *group {
                "-" => None,
                "core" => Some(("", version)),
                group => Some((group, version)),
            },
        }),
        _ => Err(format!("bad package: {words:?}")),
    }
}

fn new_type(line: &'static str, package: &'static Package) -> Read<Type> {
    let mut words = line.split(' ');
    let mut new = Type {
        name: words.next().unwrap_or(line),
        package,
        is_kind: false,
        is_typed: false,
        is_atomic: false,
        is_opaque: false,
        fields: Vec::new(),
        json: OnceLock::new(),
    };
    for word in words {
        match word {
            "kind" => (new.is_kind, new.is_typed) = (true, true),
            "typed" => new.is_typed = true,
            "atomic" => new.is_atomic = true,
            "opaque" => new.is_opaque = true,
            other => return Err(format!("bad word {other:?} at type {}", new.name)),
        }
    }
    Ok(new)
}

fn field(words: &'static str, home: usize, names: &Names) -> Option<Field> {
    let mut words = words.split(' ');
    let name = words.next()?;
    let number = words.next()?.parse().ok()?;
    let shape = words.next()?;
    let plain = shape.trim_end_matches(['?', '!']);
    let flags = &shape[plain.len()..];
    let inline = name.strip_prefix('~');
    let bare = inline.or_else(|| name.strip_prefix('-')).unwrap_or(name);
    let mut field = Field {
        name: bare,
        proto_name: bare,
        number,
        shape: shape_of(plain, home, names)?,
        is_inline: inline.is_some(),
        is_pointer: flags.contains('?'),
        is_always_present: flags.contains('!'),
        list_type: None,
        is_atomic: false,
        is_granular: false,
        patch: Patch::default(),
        default: None,
    };
    for word in words {
        match word.split_once('=')? {
            ("proto", name) => field.proto_name = name,
            ("list", "atomic") => field.list_type = Some(ListType::Atomic),
            ("list", "set") => field.list_type = Some(ListType::Set),
            ("list", keyed) => field.list_type = Some(ListType::Map(keyed.strip_prefix("map:")?)),
            ("map", "atomic") => field.is_atomic = true,
            ("map", "granular") => field.is_granular = true,
            ("patch", word) => field.patch = patch(word)?,
            ("default", json) => field.default = Some(json),
            _ => return None,
        }
    }
    Some(field)
}

fn patch(word: &'static str) -> Option<Patch> {
    let (strategies, key) = word.split_once(':')?;
    let has = |name: &str| strategies.split(',').any(|strategy| strategy == name);
    Some(Patch {
        merge: has("merge"),
        replace: has("replace"),
        retain_keys: has("retainKeys"),
        merge_key: Some(key).filter(|key| !key.is_empty()),
    })
}

fn shape_of(word: &'static str, home: usize, names: &Names) -> Option<Shape> {
    if let Some(element) = word.strip_prefix('[') {
        return kind(element, home, names).map(Shape::List);
    }
    if let Some(element) = word.strip_prefix('{') {
        return kind(element, home, names).map(Shape::Map);
    }
    kind(word, home, names).map(Shape::One)
}

fn kind(word: &'static str, home: usize, names: &Names) -> Option<Kind> {
    Some(match word {
        "s" => Kind::String,
        "y" => Kind::Bytes,
        "b" => Kind::Bool,
        "i" => Kind::Int32,
        "l" => Kind::Int64,
        "d" => Kind::Double,
        "Q" => Kind::Quantity,
        "I" => Kind::IntOrString,
        "T" => Kind::Time,
        "M" => Kind::MicroTime,
        "D" => Kind::Duration,
        "F" => Kind::FieldsV1,
        "R" => Kind::RawExtension,
        "J" => Kind::Json,
        "W" => Kind::StringList,
        word => {
            let (package, name) = word.split_once('.')?;
            let package = match package {
                "" => home,
                number => number.parse().ok()?,
            };
            Kind::Message(*names.get(&(package, name))?)
        }
    })
}

fn index(types: Vec<Type>) -> Facts {
    let mut by_name = HashMap::with_capacity(types.len());
    let mut by_kind = HashMap::new();
    for (number, each) in (0u16..).zip(&types) {
        by_name.insert((each.package.schema, each.name), TypeRef(number));
        if let (true, Some((group, version))) = (each.is_kind, each.package.group_version) {
            by_kind.insert((group, version, each.name), TypeRef(number));
        }
    }
    Facts {
        types,
        by_name,
        by_kind,
    }
}

//! The interfaces that this Pilothouse knows, read from the files of `wit/` themselves so that no list can disagree with them.

use std::{fmt, sync::LazyLock};

/// The text of every WIT file.
const FILES: &[&str] = &[
    include_str!("../../../wit/host/host.wit"),
    include_str!("../../../wit/admission/admission.wit"),
    include_str!("../../../wit/controller/controller.wit"),
    include_str!("../../../wit/scheduler/scheduler.wit"),
];

/// A known interface: `pilothouse:admission/mutate` at `0.1.0`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Interface {
    /// `pilothouse:admission`.
    pub package: String,
    /// `mutate`.
    pub name: String,
    pub version: Version,
}

/// A semantic version without pre-release or build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}

impl Interface {
    /// `pilothouse:admission/mutate`.
    pub fn path(&self) -> String {
        format!("{}/{}", self.package, self.name)
    }

    /// The family: `admission`.
    pub fn family(&self) -> &str {
        self.package.strip_prefix("pilothouse:").unwrap_or_default()
    }

    /// Splits `pilothouse:admission/mutate@0.1.0`; a name without a version has version 0.0.0.
    pub fn parse(name: &str) -> Option<Self> {
        let (path, version) = name.split_once('@').unwrap_or((name, "0.0.0"));
        let (package, name) = path.split_once('/')?;
        Some(Self {
            package: package.to_owned(),
            name: name.to_owned(),
            version: Version::parse(version)?,
        })
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@{}", self.package, self.name, self.version)
    }
}

impl Version {
    /// `0.1.0`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '.').map(str::parse);
        let mut next = || parts.next()?.ok();
        Some(Self {
            major: next()?,
            minor: next()?,
            patch: next()?,
        })
    }

    /// Whether components built for one run with the other: the same major version, or the same minor version of 0.
    pub fn compatible(self, other: Self) -> bool {
        match self.major {
            0 => other.major == 0 && self.minor == other.minor,
            major => major == other.major,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// All known interfaces in the order of the files.
pub fn known() -> &'static [Interface] {
    static KNOWN: LazyLock<Vec<Interface>> =
        LazyLock::new(|| FILES.iter().flat_map(|file| scan(file)).collect());
    &KNOWN
}

/// The known interface of this path, whatever its version.
pub fn find(package: &str, name: &str) -> Option<&'static Interface> {
    known()
        .iter()
        .find(|known| known.package == package && known.name == name)
}

/// The package line and the interface lines of a WIT file, which stand at the beginning of a line.
fn scan(file: &str) -> Vec<Interface> {
    let package = file.lines().find_map(|line| line.strip_prefix("package "));
    let Some((package, version)) = package
        .and_then(|line| line.trim_end_matches(';').split_once('@'))
        .and_then(|(package, version)| Some((package, Version::parse(version)?)))
    else {
        return Vec::new();
    };
    let names = file.lines().filter_map(|line| {
        line.strip_prefix("interface ")?
            .split_whitespace()
            .next()
            .map(|name| name.trim_start_matches('%'))
    });
    names
        .map(|name| Interface {
            package: package.to_owned(),
            name: name.to_owned(),
            version,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wit_file_is_known() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit");
        let mut texts = Vec::new();
        for package in std::fs::read_dir(root).unwrap() {
            let package = package.unwrap().path();
            if package.is_dir() {
                for file in std::fs::read_dir(package).unwrap() {
                    texts.push(std::fs::read_to_string(file.unwrap().path()).unwrap());
                }
            }
        }
        assert_eq!(texts.len(), FILES.len());
        for text in texts {
            assert!(FILES.contains(&text.as_str()));
            assert!(!scan(&text).is_empty());
        }
        assert!(find("pilothouse:admission", "mutate").is_some());
    }

    #[test]
    fn versions_of_one_track_are_compatible() {
        let version = |text| Version::parse(text).unwrap();
        let cases = [
            ("0.1.0", "0.1.7", true),
            ("0.1.0", "0.2.0", false),
            ("1.0.0", "1.4.2", true),
            ("1.0.0", "2.0.0", false),
            ("0.1.0", "1.1.0", false),
        ];
        for (a, b, expected) in cases {
            assert_eq!(version(a).compatible(version(b)), expected, "{a} {b}");
        }
        assert_eq!(Version::parse("0.1"), None);
    }
}

//! IP addresses and ranges of them, in the strict forms that v1.36 asks of new values.
//! Source: <https://github.com/kubernetes/enhancements/tree/master/keps/sig-network/4858-ip-cidr-validation>

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pilothouse_api::field::{ErrorList, FieldError, Path};

const NO_IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const NO_CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub first: IpAddr,
    pub bits: u8,
}

impl Range {
    fn parse(value: &str) -> Option<(IpAddr, Self)> {
        let (address, bits) = value.split_once('/')?;
        let address = parse_sloppy(address)?;
        let bits: u8 = bits.parse().ok()?;
        (bits <= width(address)).then(|| {
            let first = masked(address, bits);
            (address, Self { first, bits })
        })
    }

    /// Whether `other` lies in this range and is smaller.
    pub(super) fn strictly_contains(self, other: Self) -> bool {
        self.first.is_ipv4() == other.first.is_ipv4()
            && self.bits < other.bits
            && masked(other.first, self.bits) == self.first
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

/// What is wrong with an address in its canonical form; nothing means valid.
pub(super) fn canonical_ip_complaints(value: &str) -> Vec<String> {
    let complaints = ip_complaints(value);
    match parse_sloppy(value) {
        Some(ip) if complaints.is_empty() && ip.to_string() != value => {
            vec![format!("must be in canonical form ({:?})", ip.to_string())]
        }
        _ => complaints,
    }
}

/// An address in any unambiguous form. One of the object's `known` addresses is fine whatever its form.
pub(super) fn ip(errors: &mut ErrorList, path: &Path, value: &str, known: &[&str]) {
    if known.contains(&value) {
        return;
    }
    let complaints = ip_complaints(value);
    errors.extend(
        complaints
            .iter()
            .map(|why| FieldError::invalid(path, value, why)),
    );
}

/// A range in any unambiguous form; what comes back is the range, if it can be read at all. One of the object's `known`
/// ranges is fine whatever its form.
pub(super) fn cidr(
    errors: &mut ErrorList,
    path: &Path,
    value: &str,
    known: &[&str],
) -> Option<Range> {
    if !known.contains(&value) {
        let complaints = cidr_complaints(value);
        errors.extend(
            complaints
                .iter()
                .map(|why| FieldError::invalid(path, value, why)),
        );
    }
    Range::parse(value).map(|(_, range)| range)
}

/// A range in its canonical form.
pub(super) fn canonical_cidr(errors: &mut ErrorList, path: &Path, value: &str) -> Option<Range> {
    let before = errors.len();
    let range = cidr(errors, path, value, &[])?;
    let canonical = range.to_string();
    if errors.len() == before && canonical != value {
        let why = format!("must be in canonical form ({canonical:?})");
        errors.push(FieldError::invalid(path, value, &why));
    }
    Some(range)
}

fn ip_complaints(value: &str) -> Vec<String> {
    let Some(ip) = parse_sloppy(value) else {
        return vec![NO_IP.to_owned()];
    };
    let mut complaints = Vec::new();
    if value.parse::<IpAddr>().is_err() {
        complaints.push("must not have leading 0s".to_owned());
    }
    if is_mapped(ip) {
        complaints.push("must not be an IPv4-mapped IPv6 address".to_owned());
    }
    complaints
}

fn cidr_complaints(value: &str) -> Vec<String> {
    let Some((address, range)) = Range::parse(value) else {
        return vec![NO_CIDR.to_owned()];
    };
    let (written, bits) = value.split_once('/').unwrap_or_default();
    let padded = bits.len() > 1 && bits.starts_with('0');
    let complaint = if padded || written.parse::<IpAddr>().is_err() {
        "must not have leading 0s in IP or prefix length"
    } else if is_mapped(address) {
        "must not have an IPv4-mapped IPv6 address"
    } else if address != range.first {
        "must not have bits set beyond the prefix length"
    } else {
        return Vec::new();
    };
    vec![complaint.to_owned()]
}

/// Leading zeros of IPv4 octets are read over, as they have been of old.
fn parse_sloppy(value: &str) -> Option<IpAddr> {
    if let Ok(ip) = value.parse() {
        return Some(ip);
    }
    let octets: Option<Vec<u8>> = value
        .split('.')
        .map(|octet| {
            let digits = !octet.is_empty() && octet.bytes().all(|b| b.is_ascii_digit());
            digits.then(|| octet.parse().ok()).flatten()
        })
        .collect();
    let octets: [u8; 4] = octets?.try_into().ok()?;
    Some(Ipv4Addr::from(octets).into())
}

fn is_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some())
}

fn width(ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn masked(ip: IpAddr, bits: u8) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            Ipv4Addr::from_bits(ip.to_bits() & mask).into()
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            Ipv6Addr::from_bits(ip.to_bits() & mask).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::kinds::testing::texts;

    #[test]
    fn addresses() {
        for (value, strict, canonical) in [
            ("10.0.0.1", vec![], vec![]),
            ("2001:db8::1", vec![], vec![]),
            (
                "2001:DB8::1",
                vec![],
                vec!["must be in canonical form (\"2001:db8::1\")"],
            ),
            (
                "2001:db8:0:0::1",
                vec![],
                vec!["must be in canonical form (\"2001:db8::1\")"],
            ),
            (
                "10.0.0.01",
                vec!["must not have leading 0s"],
                vec!["must not have leading 0s"],
            ),
            (
                "::ffff:1.2.3.4",
                vec!["must not be an IPv4-mapped IPv6 address"],
                vec!["must not be an IPv4-mapped IPv6 address"],
            ),
            ("10.0.0", vec![NO_IP], vec![NO_IP]),
            ("10.0.0.256", vec![NO_IP], vec![NO_IP]),
            ("+1.0.0.1", vec![NO_IP], vec![NO_IP]),
        ] {
            let mut errors = ErrorList::new();
            ip(&mut errors, &Path::new("ip"), value, &[]);
            let expected: Vec<String> = strict
                .iter()
                .map(|why| format!("ip: Invalid value: {value:?}: {why}"))
                .collect();
            assert_eq!(texts(&errors), expected);
            assert_eq!(canonical_ip_complaints(value), canonical);
            let mut errors = ErrorList::new();
            ip(&mut errors, &Path::new("ip"), value, &[value]);
            assert_eq!(errors, []);
        }
    }

    #[test]
    fn ranges() {
        for (value, expected) in [
            ("10.0.0.0/8", vec![]),
            ("0.0.0.0/0", vec![]),
            ("::/0", vec![]),
            ("10.0.0.1/32", vec![]),
            (
                "10.0.0.1/8",
                vec!["must not have bits set beyond the prefix length"],
            ),
            (
                "10.00.0.0/8",
                vec!["must not have leading 0s in IP or prefix length"],
            ),
            (
                "10.0.0.0/08",
                vec!["must not have leading 0s in IP or prefix length"],
            ),
            (
                "::ffff:10.0.0.0/104",
                vec!["must not have an IPv4-mapped IPv6 address"],
            ),
            ("10.0.0.0/33", vec![NO_CIDR]),
            ("10.0.0.0", vec![NO_CIDR]),
            (
                "2001:DB8::/64",
                vec!["must be in canonical form (\"2001:db8::/64\")"],
            ),
        ] {
            let mut errors = ErrorList::new();
            canonical_cidr(&mut errors, &Path::new("c"), value);
            let expected: Vec<String> = expected
                .iter()
                .map(|why| format!("c: Invalid value: {value:?}: {why}"))
                .collect();
            assert_eq!(texts(&errors), expected);
        }
    }

    #[test]
    fn containment() {
        let range = |value| Range::parse(value).unwrap().1;
        for (outer, inner, expected) in [
            ("10.0.0.0/8", "10.1.0.0/16", true),
            ("10.0.0.0/8", "10.0.0.0/8", false),
            ("10.0.0.0/8", "11.0.0.0/16", false),
            ("10.0.0.0/16", "10.0.0.0/8", false),
            ("::/0", "10.0.0.0/8", false),
            ("2001:db8::/32", "2001:db8:1::/48", true),
        ] {
            assert_eq!(
                range(outer).strictly_contains(range(inner)),
                expected,
                "{outer} {inner}"
            );
        }
    }
}

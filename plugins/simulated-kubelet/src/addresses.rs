//! Addresses: a /24 of 10.64.0.0/10 for the pods of each node, an address of 172.16.0.0/12 for the node itself.

use std::{collections::BTreeSet, net::Ipv4Addr};

use pilothouse_sdk::objects::fnv1a_32;

/// How many nodes can have a range of their own.
const RANGES: u32 = 1 << 14;

/// A node's range of pod addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PodRange {
    network: u32,
    prefix_length: u32,
}

impl PodRange {
    /// From `podCIDR`; none if it is no IPv4 range with room for a pod.
    pub(crate) fn parse(cidr: &str) -> Option<Self> {
        let (address, length) = cidr.split_once('/')?;
        let address: Ipv4Addr = address.parse().ok()?;
        let prefix_length: u32 = length
            .parse()
            .ok()
            .filter(|length| (1..=30).contains(length))?;
        let mask = u32::MAX << (32 - prefix_length);
        Some(Self {
            network: address.to_bits() & mask,
            prefix_length,
        })
    }

    /// A range that is not among those taken, the same one each time for the same node and the same others.
    pub(crate) fn choose(first: u32, taken: &BTreeSet<String>) -> Option<String> {
        (0..RANGES)
            .map(|step| (first.wrapping_add(step)) % RANGES)
            .map(|number| format!("{}/24", Ipv4Addr::from_bits(0x0a40_0000 + (number << 8))))
            .find(|cidr| !taken.contains(cidr))
    }

    /// The node's own address.
    pub(crate) fn node_address(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(0xac10_0001 + ((self.network >> 8) % RANGES))
    }

    /// An address for the pod with this uid that is not among those taken; none if there is none left.
    pub(crate) fn pod_address(self, uid: &str, taken: &BTreeSet<Ipv4Addr>) -> Option<Ipv4Addr> {
        let usable = (1_u32 << (32 - self.prefix_length)) - 2;
        let first = fnv1a_32(uid.as_bytes()) % usable;
        (0..usable)
            .map(|step| Ipv4Addr::from_bits(self.network + 1 + (first + step) % usable))
            .find(|address| !taken.contains(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_get_ranges_of_their_own() {
        let mut taken = BTreeSet::new();
        for first in [0, 1, 1, RANGES - 1, RANGES] {
            let cidr = PodRange::choose(first, &taken).unwrap();
            assert!(taken.insert(cidr));
        }
        let expected = [
            "10.127.255.0/24",
            "10.64.0.0/24",
            "10.64.1.0/24",
            "10.64.2.0/24",
            "10.64.3.0/24",
        ];
        assert_eq!(
            taken.iter().map(String::as_str).collect::<Vec<_>>(),
            expected
        );
        let addresses: BTreeSet<_> = taken
            .iter()
            .map(|cidr| PodRange::parse(cidr).unwrap().node_address())
            .collect();
        assert_eq!(addresses.len(), taken.len());
        assert!(addresses.contains(&Ipv4Addr::new(172, 16, 0, 1)));
    }

    #[test]
    fn pods_get_every_address_once_and_then_none() {
        let range = PodRange::parse("10.64.7.0/29").unwrap();
        let mut taken = BTreeSet::new();
        for number in 0..6 {
            let address = range.pod_address(&format!("uid-{number}"), &taken).unwrap();
            assert!(taken.insert(address));
        }
        assert_eq!(taken.first(), Some(&Ipv4Addr::new(10, 64, 7, 1)));
        assert_eq!(taken.last(), Some(&Ipv4Addr::new(10, 64, 7, 6)));
        assert_eq!(range.pod_address("one more", &taken), None);
        let again = range.pod_address("uid-0", &BTreeSet::new());
        assert_eq!(again, range.pod_address("uid-0", &BTreeSet::new()));
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in [
            "",
            "10.0.0.0",
            "10.0.0.0/0",
            "10.0.0.0/31",
            "10.0.0.0/x",
            "fd00::/64",
            "300.0.0.0/24",
        ] {
            assert_eq!(PodRange::parse(text), None, "{text}");
        }
    }
}

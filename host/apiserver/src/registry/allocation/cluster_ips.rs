//! A range of addresses as a [`Pool`] of offsets.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use super::pool::{Pool, Refusal};

/// Of larger ranges only so many addresses are used.
const MAX_SIZE: u128 = 1 << 20;

/// A range in CIDR notation with at least two addresses to give out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterIpRange {
    network: IpAddr,
    prefix: u8,
}

/// Why a range of cluster IPs is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a CIDR range with room for Services, such as 10.96.0.0/16")]
pub struct RangeError(String);

impl ClusterIpRange {
    pub(crate) fn is_ipv4(&self) -> bool {
        self.network.is_ipv4()
    }

    fn bits(self) -> u8 {
        match self.network {
            IpAddr::V4(_) => 32 - self.prefix,
            IpAddr::V6(_) => 128 - self.prefix,
        }
    }

    fn at(self, offset: u32) -> IpAddr {
        match self.network {
            IpAddr::V4(ip) => Ipv4Addr::from(u32::from(ip).wrapping_add(offset)).into(),
            IpAddr::V6(ip) => Ipv6Addr::from(u128::from(ip).wrapping_add(offset.into())).into(),
        }
    }

    fn offset(self, ip: IpAddr) -> Option<u32> {
        let offset = match (self.network, ip) {
            (IpAddr::V4(network), IpAddr::V4(ip)) => {
                u128::from(u32::from(ip).checked_sub(network.into())?)
            }
            (IpAddr::V6(network), IpAddr::V6(ip)) => u128::from(ip).checked_sub(network.into())?,
            _ => return None,
        };
        u32::try_from(offset).ok()
    }
}

impl FromStr for ClusterIpRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let refuse = || RangeError(text.to_owned());
        let (address, prefix) = text.split_once('/').ok_or_else(refuse)?;
        let address: IpAddr = address.parse().map_err(|_| refuse())?;
        let prefix: u8 = prefix.parse().map_err(|_| refuse())?;
        let max = if address.is_ipv4() { 30 } else { 126 };
        if prefix > max || prefix == 0 {
            return Err(refuse());
        }
        let network = match address {
            IpAddr::V4(ip) => {
                Ipv4Addr::from(u32::from(ip) >> (32 - prefix) << (32 - prefix)).into()
            }
            IpAddr::V6(ip) => {
                Ipv6Addr::from(u128::from(ip) >> (128 - prefix) << (128 - prefix)).into()
            }
        };
        Ok(Self { network, prefix })
    }
}

impl fmt::Display for ClusterIpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

pub(super) struct ClusterIps {
    range: ClusterIpRange,
    pool: Pool,
}

impl ClusterIps {
    /// All addresses of the range but the network's own and, with IPv4, the broadcast address.
    pub(super) fn new(range: &ClusterIpRange) -> Self {
        let size = (1u128 << range.bits()).min(MAX_SIZE);
        let broadcast = u128::from(range.network.is_ipv4());
        let last = u32::try_from(size - 1 - broadcast).unwrap_or(u32::MAX);
        Self {
            range: *range,
            pool: Pool::new(1, last, 16, (16, 256)),
        }
    }

    pub(super) fn is_ipv4(&self) -> bool {
        self.range.network.is_ipv4()
    }

    pub(super) fn family(&self) -> &'static str {
        match self.is_ipv4() {
            true => "IPv4",
            false => "IPv6",
        }
    }

    pub(super) fn first(&self) -> IpAddr {
        self.range.at(1)
    }

    pub(super) fn range(&self) -> String {
        self.range.to_string()
    }

    pub(super) fn take(&self, ip: IpAddr) -> Result<(), Refusal> {
        let offset = self.range.offset(ip).ok_or(Refusal::OutOfRange)?;
        self.pool.take(offset)
    }

    pub(super) fn take_any(&self) -> Result<IpAddr, Refusal> {
        Ok(self.range.at(self.pool.take_any()?))
    }

    pub(super) fn adopt(&self, ip: IpAddr) {
        if let Some(offset) = self.range.offset(ip) {
            self.pool.adopt(offset);
        }
    }

    pub(super) fn give_back(&self, ip: IpAddr) {
        if let Some(offset) = self.range.offset(ip) {
            self.pool.give_back(offset);
        }
    }
}
